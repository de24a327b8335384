-- The greatest fencing token of each lock. Names are compared as bytes.
CREATE TABLE IF NOT EXISTS lock_fences (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL
);
