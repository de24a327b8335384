-- The greatest fencing token of each lock. Names are compared as bytes: collations ignore case and spaces at the end.
CREATE TABLE IF NOT EXISTS lock_fences (
    name  VARBINARY(512) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL
) ENGINE = InnoDB;
