-- The digits as they come: a line each, 64 pixels and the digit.
CREATE EXTENSION cudnn_ops;
CREATE TABLE line (id int GENERATED ALWAYS AS IDENTITY, csv text);
COPY line (csv) FROM STDIN;
