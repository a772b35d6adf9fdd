-- Views in words that people would type.
CREATE VIEW latest_fits AS
    SELECT * FROM fits
    QUALIFY row_number() OVER (PARTITION BY testset, aggregator ORDER BY fitted_at DESC, fit_id) = 1;

CREATE VIEW latest_aggregates AS
    SELECT f.testset, i.item_id, f.aggregator, a.estimate, a.sd, a.p_quality, f.fit_id
    FROM latest_fits f
    JOIN aggregates a USING (fit_id)
    JOIN items i USING (item_ix);

CREATE VIEW judge_card AS
    SELECT p.testset, p.judge, j.family, p.admitted, p.reason, p.notes, p.missing_rate, p.mode_share,
           p.entropy, p.agreement, f.aggregator, w.weight
    FROM panels p
    LEFT JOIN judges j USING (judge)
    LEFT JOIN latest_fits f ON f.testset = p.testset
    LEFT JOIN weights w ON w.fit_id = f.fit_id AND w.judge = p.judge;

CREATE VIEW disagreements AS
    SELECT i.testset, i.item_id, count(s.value) AS judges, min(s.value) AS lowest, max(s.value) AS highest,
           stddev_pop(s.value) AS spread
    FROM scores s JOIN items i USING (item_ix)
    WHERE s.status = 'ok'
    GROUP BY ALL;

CREATE VIEW history AS
    SELECT testset, aggregator, fit_id, fitted_at, labels_used, code_version
    FROM fits ORDER BY testset, aggregator, fitted_at;
