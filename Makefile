# cudnn_ops: the core library and a library for each provider whose headers are here.
#
#   make                 build                 make installcheck   regression tests on a running server
#   make install         install               make clean / uninstall
#   make test            install what is missing and run every test
#   make demo            the same, and show the main job running
#   make lint            what the compiler does not see
#
# PG_CONFIG chooses the PostgreSQL, CUDA_HOME and CUDNN_HOME where CUDA and cuDNN are.
# WERROR=1 makes warnings errors.

EXTENSION = cudnn_ops
DATA = cudnn_ops--1.0.sql
MODULE_big = cudnn_ops
CORE_SOURCES = $(wildcard src/*.c src/reference/*.c)
OBJS = $(CORE_SOURCES:.c=.o)
REGRESS = $(sort $(basename $(notdir $(wildcard sql/*.sql))))
REGRESS_OPTS = --load-extension=cudnn_ops

PG_CPPFLAGS = -Isrc
PG_CFLAGS = -MMD -MP -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers $(if $(WERROR),-Werror)
SHLIB_LINK = -Wl,-Bsymbolic-functions -ldl -lm

# Providers ---------------------------------------------------------------

CUDA_HOME ?= $(or $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v nvcc 2>/dev/null))),/usr/local/cuda)
CUDNN_HOME ?= $(CUDA_HOME)

onednn_found := $(firstword $(wildcard /usr/include/dnnl.h /usr/include/oneapi/dnnl/dnnl.h))
cudnn_found := $(and $(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h),$(wildcard $(CUDNN_HOME)/include/cudnn.h))
PROVIDERS := $(foreach p,$(if $(onednn_found),onednn) $(if $(cudnn_found),cudnn),$(if $(wildcard src/$(p)/*.c),$(p)))
PROVIDER_LIBS := $(PROVIDERS:%=cudnn_ops_%.so)

onednn_CPPFLAGS = -fopenmp
onednn_LINK = -ldnnl -fopenmp
cudnn_libdirs = $(wildcard $(CUDNN_HOME)/lib64 $(CUDNN_HOME)/lib $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib)
cudnn_CPPFLAGS = -I$(CUDNN_HOME)/include -I$(CUDA_HOME)/include
cudnn_LINK = $(patsubst %,-L%,$(cudnn_libdirs)) $(patsubst %,-Wl$(comma)-rpath$(comma)%,$(cudnn_libdirs)) \
	-l:libcudnn.so.9 -lcudart -Wl,-z,nodelete
comma := ,

EXTRA_CLEAN = $(wildcard src/*/*.o src/*.d src/*/*.d) cudnn_ops_onednn.so cudnn_ops_cudnn.so build

# These work before PostgreSQL is installed ---------------------------------

ifneq ($(filter test demo demo-stop lint,$(MAKECMDGOALS)),)
export CUDA_HOME CUDNN_HOME
test demo demo-stop lint:
	test/$@
.PHONY: test demo demo-stop lint
else

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
$(if $(PGXS),,$(error $(PG_CONFIG) not found: set PG_CONFIG, or let make test install PostgreSQL))

# Without the clang of that PostgreSQL there is no bitcode.
CLANG_USED := $(or $(CLANG),$(shell sed -n 's/^CLANG *= *//p' $(dir $(PGXS))../Makefile.global))
ifeq ($(shell command -v $(CLANG_USED) 2>/dev/null),)
override with_llvm := no
endif

include $(PGXS)

all: $(PROVIDER_LIBS)

define provider_rules
$(1)_OBJS := $$(patsubst %.c,%.o,$$(wildcard src/$(1)/*.c))
$$($(1)_OBJS): override CPPFLAGS += $$($(1)_CPPFLAGS)
cudnn_ops_$(1).so: $$($(1)_OBJS) src/provider.map
	$$(CC) $$(CFLAGS) -shared -o $$@ $$($(1)_OBJS) $$(LDFLAGS) -Wl,--version-script=src/provider.map $$($(1)_LINK)
endef
$(foreach p,$(PROVIDERS),$(eval $(call provider_rules,$(p))))

install: install-providers
install-providers: $(PROVIDER_LIBS) installdirs
	$(if $(PROVIDER_LIBS),$(INSTALL_SHLIB) $(PROVIDER_LIBS) '$(DESTDIR)$(pkglibdir)/')
uninstall: uninstall-providers
uninstall-providers:
	rm -f $(patsubst %,'$(DESTDIR)$(pkglibdir)/cudnn_ops_%.so',onednn cudnn)
.PHONY: install-providers uninstall-providers

$(if $(onednn_found),,$(info oneDNN not found: building without the onednn provider))
$(if $(cudnn_found),,$(info CUDA or cuDNN not found: building without the cudnn provider))

-include $(CORE_SOURCES:.c=.d) $(foreach p,$(PROVIDERS),$(patsubst %.c,%.d,$(wildcard src/$(p)/*.c)))

endif
