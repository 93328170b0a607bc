# What the scripts of this folder share: where things are, how to become root,
# and a private server that never runs as root. Sourced by bash.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

say() { printf '%s\n' "== $*"; }

# Run as root: directly, or by sudo.
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -E "$@"; fi
}

# The private server is ours: the package of PostgreSQL needs no cluster of its own.
no_cluster() {
	local conf=/etc/postgresql-common/createcluster.conf
	[ -e $conf ] || {
		as_root mkdir -p "$(dirname $conf)" &&
		echo 'create_main_cluster = false' | as_root tee $conf >/dev/null
	}
}

# Install the Debian or Ubuntu packages of these names that are missing.
need_packages() {
	local missing=() p
	for p in "$@"; do
		dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
	done
	[ ${#missing[@]} = 0 ] && return
	say "installing ${missing[*]}"
	local log
	log=$(mktemp)
	{
		as_root apt-get update -qq &&
		no_cluster &&
		as_root apt-get install -y -qq --no-install-recommends "${missing[@]}"
	} >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
	rm -f "$log"
}

# PostgreSQL: that of PG_CONFIG, else the distribution's, which is installed.
need_postgresql() {
	local major
	need_packages make gcc libc6-dev
	if [ -z "${PG_CONFIG:-}" ]; then
		# the newest that is installed, else what the distribution's meta package depends on
		major=$(ls /usr/lib/postgresql 2>/dev/null | sort -n | tail -1 || true)
		if [ -z "$major" ]; then
			as_root apt-get update -qq
			major=$(apt-cache depends postgresql | sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p' | head -1)
		fi
		need_packages "postgresql-$major" "postgresql-server-dev-$major"
		PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config
	fi
	export PG_CONFIG
	bindir=$("$PG_CONFIG" --bindir)
}

# Run a command as the server's owner, user postgres where we are root, in a
# folder that he can enter.
as_owner() (
	cd "${work:-/}"
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- env "PATH=$bindir:$PATH" "$@"
	else
		env "PATH=$bindir:$PATH" "$@"
	fi
)

# Build and install with these make variables. Output goes to a log unless it fails.
# What was found by PATH (nvcc) is found by root too.
build() {
	say "building and installing (log: $work/build.log)"
	{
		make -C "$root" -j"$(nproc)" PG_CONFIG="$PG_CONFIG" "$@" &&
		as_root env "PATH=$PATH" make -C "$root" PG_CONFIG="$PG_CONFIG" "$@" install
	} >"$work/build.log" 2>&1 || { tail -30 "$work/build.log" >&2; exit 1; }
	grep -h 'building without' "$work/build.log" | sort -u || true
}

# Make a folder of the server's owner in /tmp, where others may have taken its name.
own_folder() {
	mkdir -p -m 755 "$1"
	case $(stat -c %U "$1") in
		root | postgres | "$(id -un)") ;;
		*) echo "$1 is somebody else's" >&2; exit 1 ;;
	esac
	[ "$(id -u)" != 0 ] || chown postgres "$1"
}

# $work: a folder for the server and logs, which its owner can reach and write.
# $files: the project's files as the owner can read them, the project itself or,
# where he cannot enter it (a clone in /root, say), a copy.
prepare_work() {
	files=$root
	work=$root/build
	if [ "$(id -u)" = 0 ] && ! (work=/ as_owner test -r "$root/sql" -a -x "$root/sql"); then
		work=/tmp/cudnn_ops-build
		files=$work/files
		say "user postgres cannot enter $root: server and logs go to $work"
		own_folder "$work"
		rm -rf "$files"
		mkdir -p "$files"
		cp -r "$root/sql" "$root/expected" "$root/src" "$root/test" "$files/"
	else
		mkdir -p "$work"
		[ "$(id -u)" != 0 ] || chown postgres "$work"
	fi
	PGHOST=$work
	# a socket's path has about 100 bytes
	[ ${#work} -lt 80 ] || { PGHOST=/tmp/cudnn_ops-$(id -u); own_folder "$PGHOST"; }
	export PGHOST PGPORT=${PGPORT:-54329} PGDATABASE=postgres
	export PGUSER=$([ "$(id -u)" = 0 ] && echo postgres || id -un)
}

server_start() {
	if [ ! -f "$work/data/PG_VERSION" ]; then
		as_owner initdb -D "$work/data" -A trust -E UTF8 --locale=C --no-sync >"$work/initdb.log"
	fi
	as_owner pg_ctl -D "$work/data" status >/dev/null 2>&1 && server_stop
	as_owner pg_ctl -w -D "$work/data" -l "$work/server.log" \
		-o "-p $PGPORT -c listen_addresses= -c unix_socket_directories='$PGHOST' -c fsync=off" start >/dev/null
}

server_stop() {
	as_owner pg_ctl -w -m fast -D "$work/data" stop >/dev/null
}
