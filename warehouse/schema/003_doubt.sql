-- How far weights would move with other items, and whether doubt is where the errors are.
ALTER TABLE weights ADD COLUMN loadings_lo DOUBLE[];
ALTER TABLE weights ADD COLUMN loadings_hi DOUBLE[];
ALTER TABLE evaluations ADD COLUMN risk_coverage DOUBLE;
ALTER TABLE evaluations ADD COLUMN calibration_error DOUBLE;
CREATE OR REPLACE VIEW judge_card AS
    SELECT p.testset, p.judge, j.family, p.admitted, p.reason, p.notes, p.missing_rate, p.mode_share,
           p.entropy, p.agreement, f.aggregator, w.weight, w.lo, w.hi
    FROM panels p
    LEFT JOIN judges j USING (judge)
    LEFT JOIN latest_fits f ON f.testset = p.testset
    LEFT JOIN weights w ON w.fit_id = f.fit_id AND w.judge = p.judge;
