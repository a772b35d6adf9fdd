-- Schema of the database, which CARE builds from the parts. Rows refer to items and judges by integers.
--
-- CARE never alters a database: it rebuilds an older version from the parts, and refuses a newer version. If you change
-- a table or view, increase SCHEMA_VERSION in database.py.

CREATE TABLE schema_version (
    version INTEGER NOT NULL,
    written_by VARCHAR NOT NULL       -- version of CARE
);

-- Items, judges and scores.
CREATE TABLE testsets (
    testset VARCHAR NOT NULL,
    description VARCHAR,
    scale_low DOUBLE,
    scale_high DOUBLE,
    cut DOUBLE,                       -- gold above this value means Q = 1
    items_hash VARCHAR,               -- hash of all item keys
    item_ids_hash VARCHAR NOT NULL,   -- hash of all item ids
    source_version VARCHAR            -- version of the source of the items; null in older parts
);
CREATE TABLE items (
    item_ix INTEGER NOT NULL,
    testset VARCHAR NOT NULL,
    item_id VARCHAR NOT NULL,
    row_ix INTEGER NOT NULL,          -- position in the source
    id_rank INTEGER NOT NULL,         -- position in the order of item ids; scores are hashed in this order
    item_key VARCHAR NOT NULL,        -- hash of the id and the texts
    prompt VARCHAR,
    response VARCHAR,
    response_2 VARCHAR,               -- second response of a pair
    reference VARCHAR,
    gold DOUBLE,
    split_unit VARCHAR,               -- group of items that are never divided between fit and evaluation
    metadata VARCHAR,                 -- JSON
    aspect VARCHAR                    -- quality aspect to score, if it differs between items
);
CREATE TABLE judges (
    judge_ix INTEGER NOT NULL,
    judge VARCHAR NOT NULL,
    family VARCHAR,
    spec_json VARCHAR NOT NULL
);
CREATE TABLE scores (
    item_ix INTEGER NOT NULL,
    judge_ix INTEGER NOT NULL,
    value DOUBLE,
    status VARCHAR NOT NULL,          -- ok, or the reason for a missing value; refused if a score file has no value
    text_mismatch BOOLEAN NOT NULL    -- whether the recorded response differs from the item's response
);
CREATE TABLE slices (                 -- last loaded scores of one judge on one test set
    testset VARCHAR NOT NULL,
    judge VARCHAR NOT NULL,
    judge_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,
    n_items INTEGER NOT NULL,
    n_ok INTEGER NOT NULL,
    n_scored INTEGER,                 -- items with a score row of any status
    items_hash VARCHAR                -- hash of the item keys at that time
);
CREATE TABLE askings (                -- requests to a judge about one test set in one run, and their cost
    run_date DATE NOT NULL,              -- UTC date of the start of the run
    judge VARCHAR NOT NULL,
    testset VARCHAR NOT NULL,
    what VARCHAR NOT NULL,            -- items, probes, canary or trial
    began TIMESTAMPTZ NOT NULL,
    scored BIGINT,                    -- score rows, of any status, including repeats
    questions BIGINT,                 -- different texts among these items
    requests BIGINT,
    repeated BIGINT,                  -- requests that repeat a question, for any reason
    refused BIGINT,                   -- requests refused by a rate limit (HTTP 429)
    tokens_in BIGINT,
    tokens_cached BIGINT,             -- input tokens from the endpoint's cache
    tokens_out BIGINT,
    tokens_reasoning BIGINT,          -- output tokens used for reasoning
    dollars DOUBLE,                   -- null if the price is unknown
    dollars_unknown DOUBLE,           -- upper bound for requests whose cost no response reported
    dollars_reserved DOUBLE,          -- upper bound for requests in progress, such as after a kill
    seconds DOUBLE,
    latencies_ms DOUBLE[],            -- latency of each response, or of a random sample of 512 to 1,024
    prices VARCHAR,                   -- source of the token prices
    forecast_tokens DOUBLE,           -- forecast before the requests
    forecast_dollars DOUBLE
);
CREATE TABLE panels (                 -- admission checks of the judges of a test set
    testset VARCHAR NOT NULL,
    judge VARCHAR NOT NULL,
    admitted BOOLEAN NOT NULL,
    reason VARCHAR,
    notes VARCHAR,
    missing_rate DOUBLE,
    mode_share DOUBLE,
    entropy DOUBLE,                   -- bits
    agreement DOUBLE,
    out_of_range INTEGER
);

-- Fits. Every fit is kept.
CREATE TABLE fits (
    fit_id VARCHAR NOT NULL,
    testset VARCHAR NOT NULL,
    aggregator VARCHAR NOT NULL,
    inputs_fingerprint VARCHAR NOT NULL,
    labels_used INTEGER NOT NULL,
    threshold DOUBLE,
    certificate VARCHAR,
    details VARCHAR NOT NULL,         -- JSON
    code_version VARCHAR NOT NULL,
    fitted_at TIMESTAMPTZ NOT NULL
);
CREATE TABLE weights (                -- lo and hi: interval over resampled items
    fit_id VARCHAR NOT NULL,
    judge VARCHAR NOT NULL,
    weight DOUBLE,
    lo DOUBLE,
    hi DOUBLE,
    loadings DOUBLE[],
    loadings_lo DOUBLE[],
    loadings_hi DOUBLE[]
);
CREATE TABLE aggregates (
    fit_id VARCHAR NOT NULL,
    item_ix INTEGER NOT NULL,
    estimate DOUBLE,
    sd DOUBLE,
    p_quality DOUBLE                  -- probability of Q = 1
);
CREATE TABLE evaluations (            -- evaluation of a fit on gold
    fit_id VARCHAR NOT NULL,
    n INTEGER NOT NULL,
    labels_used INTEGER NOT NULL,
    tau DOUBLE,
    auc DOUBLE,
    mae DOUBLE,
    mae_filled DOUBLE,
    accuracy DOUBLE,
    balanced_accuracy DOUBLE,
    risk_coverage DOUBLE,
    calibration_error DOUBLE
);

-- Fit versions (the fits of all aggregators of one run), and their publication.
CREATE TABLE fit_versions (
    fit_version VARCHAR NOT NULL,
    testset VARCHAR NOT NULL,
    made_at TIMESTAMPTZ NOT NULL,
    inputs VARCHAR NOT NULL           -- JSON
);
CREATE TABLE fit_version_fits (
    fit_version VARCHAR NOT NULL,
    aggregator VARCHAR NOT NULL,
    fit_id VARCHAR NOT NULL
);
CREATE TABLE publications (
    testset VARCHAR NOT NULL,
    fit_version VARCHAR NOT NULL,
    published_at TIMESTAMPTZ NOT NULL,
    published_by VARCHAR NOT NULL,    -- review, accept, promote or rollback
    why VARCHAR NOT NULL,
    pinned BOOLEAN NOT NULL
);

-- Verdicts, loaded from report/verdicts.json. States: clear, clear if, settled by labels, ambiguous, no common signal,
-- too little data, held back, stale, failed.
CREATE TABLE verdicts (
    testset VARCHAR NOT NULL,
    state VARCHAR NOT NULL,           -- one of these states
    sentence VARCHAR NOT NULL,
    fit_version VARCHAR,                  -- null if there is no fit
    made_at TIMESTAMPTZ,
    verdict VARCHAR NOT NULL          -- JSON with reasons and next steps
);

-- Views for users.
CREATE VIEW published AS
    SELECT * FROM publications SEMI JOIN testsets USING (testset)
    QUALIFY row_number() OVER (PARTITION BY testset ORDER BY published_at DESC) = 1;

CREATE VIEW latest_fits AS
    SELECT f.*, p.fit_version, p.published_at
    FROM published p
    JOIN fit_version_fits e USING (fit_version)
    JOIN fits f USING (fit_id);

CREATE VIEW latest_aggregates AS
    SELECT f.testset, i.item_id, f.aggregator, a.estimate, a.sd, a.p_quality, f.fit_id
    FROM latest_fits f
    JOIN aggregates a USING (fit_id)
    JOIN items i USING (item_ix);

CREATE VIEW judge_card AS
    SELECT p.testset, p.judge, j.family, p.admitted, p.reason, p.notes, p.missing_rate, p.mode_share,
           p.entropy, p.agreement, f.aggregator, w.weight, w.lo, w.hi
    FROM panels p
    LEFT JOIN judges j USING (judge)
    LEFT JOIN latest_fits f ON f.testset = p.testset
    LEFT JOIN weights w ON w.fit_id = f.fit_id AND w.judge = p.judge;

CREATE VIEW bills AS                  -- cost by day; the forecast covers the requested questions
    SELECT run_date, judge, testset, sum(scored)::BIGINT AS scored, sum(questions)::BIGINT AS questions,
           sum(requests)::BIGINT AS requests, sum(repeated)::BIGINT AS repeated, sum(refused)::BIGINT AS refused,
           sum(tokens_in)::BIGINT AS tokens_in, sum(tokens_cached)::BIGINT AS tokens_cached,
           sum(tokens_out)::BIGINT AS tokens_out, sum(tokens_reasoning)::BIGINT AS tokens_reasoning,
           sum(dollars) AS dollars, sum(dollars_unknown) AS dollars_unknown,
           sum(dollars_reserved) AS dollars_reserved,
           sum(forecast_tokens) AS forecast_tokens, sum(forecast_dollars) AS forecast_dollars, sum(seconds) AS seconds,
           list_aggregate(flatten(list(latencies_ms)), 'quantile_cont', 0.5) AS p50_ms,
           list_aggregate(flatten(list(latencies_ms)), 'quantile_cont', 0.95) AS p95_ms, max(prices) AS prices
    FROM askings
    GROUP BY run_date, judge, testset
    ORDER BY run_date, testset, judge;

CREATE VIEW disagreements AS          -- spread: standard deviation of the judges' z-scores
    SELECT testset, item_id, count(*) AS judges, min(value) AS lowest, max(value) AS highest, stddev_pop(z) AS spread
    FROM (SELECT testset, item_id, value,
                 (value - avg(value) OVER judge) / nullif(stddev_pop(value) OVER judge, 0) AS z
          FROM scores JOIN items USING (item_ix)
          WHERE status = 'ok'
          WINDOW judge AS (PARTITION BY testset, judge_ix))
    GROUP BY ALL;

CREATE VIEW history AS
    SELECT e.testset, e.fit_version, e.made_at, f.aggregator, f.fit_id, f.labels_used, f.code_version,
           (SELECT max(p.published_at) FROM publications p WHERE p.fit_version = e.fit_version) AS published_at
    FROM fit_versions e
    JOIN fit_version_fits x USING (fit_version)
    JOIN fits f USING (fit_id)
    ORDER BY e.testset, e.made_at, f.aggregator;
