-- name: TakeFromStock :exec
UPDATE stock SET n = n - 1 WHERE item = $1;

-- name: AddSale :exec
INSERT INTO sales (order_id, item) VALUES ($1, $2);
