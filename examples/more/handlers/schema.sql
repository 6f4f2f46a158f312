CREATE TABLE stock (
    item TEXT PRIMARY KEY,
    n    BIGINT NOT NULL
);

-- No key: a sale that is noted twice shall be seen, not refused.
CREATE TABLE sales (
    order_id BIGINT NOT NULL,
    item     TEXT NOT NULL
);

CREATE TABLE gifts (
    order_id BIGINT NOT NULL
);
