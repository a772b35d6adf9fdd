-- The warehouse over the parts. Integer ordinals keep it small and fast; names live in items and judges.
CREATE TABLE testsets (
    testset VARCHAR NOT NULL,
    description VARCHAR,
    scale_low DOUBLE,
    scale_high DOUBLE,
    cut DOUBLE
);
CREATE TABLE items (
    item_ix INTEGER NOT NULL,
    testset VARCHAR NOT NULL,
    item_id VARCHAR NOT NULL,
    row_ix INTEGER NOT NULL,          -- place in the source
    item_key VARCHAR NOT NULL,
    prompt VARCHAR,
    response VARCHAR,
    response_2 VARCHAR,
    reference VARCHAR,
    gold DOUBLE,
    split_unit VARCHAR,
    metadata VARCHAR
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
    status VARCHAR NOT NULL,
    text_mismatch BOOLEAN NOT NULL
);
CREATE TABLE slices (
    testset VARCHAR NOT NULL,
    judge VARCHAR NOT NULL,
    judge_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,
    n_items INTEGER NOT NULL,
    n_ok INTEGER NOT NULL
);
CREATE TABLE panels (
    testset VARCHAR NOT NULL,
    judge VARCHAR NOT NULL,
    admitted BOOLEAN NOT NULL,
    reason VARCHAR,
    notes VARCHAR,
    missing_rate DOUBLE,
    mode_share DOUBLE,
    entropy DOUBLE,
    agreement DOUBLE,
    out_of_range INTEGER
);
CREATE TABLE fits (
    fit_id VARCHAR NOT NULL,
    testset VARCHAR NOT NULL,
    aggregator VARCHAR NOT NULL,
    inputs_fingerprint VARCHAR NOT NULL,
    labels_used INTEGER NOT NULL,
    threshold DOUBLE,
    certificate VARCHAR,
    details VARCHAR NOT NULL,
    code_version VARCHAR NOT NULL,
    fitted_at TIMESTAMPTZ NOT NULL
);
CREATE TABLE weights (
    fit_id VARCHAR NOT NULL,
    judge VARCHAR NOT NULL,
    weight DOUBLE,
    lo DOUBLE,
    hi DOUBLE,
    loadings DOUBLE[]
);
CREATE TABLE aggregates (
    fit_id VARCHAR NOT NULL,
    item_ix INTEGER NOT NULL,
    estimate DOUBLE,
    sd DOUBLE,
    p_quality DOUBLE
);
CREATE TABLE evaluations (
    fit_id VARCHAR NOT NULL,
    n INTEGER NOT NULL,
    labels_used INTEGER NOT NULL,
    tau DOUBLE,
    auc DOUBLE,
    mae DOUBLE,
    mae_filled DOUBLE,
    accuracy DOUBLE,
    balanced_accuracy DOUBLE
);
