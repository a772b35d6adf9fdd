-- Every fit is kept, with what it was made of; what is published is one edition a test set.
CREATE TABLE editions (
    edition VARCHAR NOT NULL,
    testset VARCHAR NOT NULL,
    made_at TIMESTAMPTZ NOT NULL,
    inputs VARCHAR NOT NULL
);
CREATE TABLE edition_fits (
    edition VARCHAR NOT NULL,
    aggregator VARCHAR NOT NULL,
    fit_id VARCHAR NOT NULL
);
CREATE TABLE publications (
    testset VARCHAR NOT NULL,
    edition VARCHAR NOT NULL,
    published_at TIMESTAMPTZ NOT NULL,
    published_by VARCHAR NOT NULL,    -- review, accept, promote or rollback
    why VARCHAR NOT NULL,
    pinned BOOLEAN NOT NULL
);
ALTER TABLE slices ADD COLUMN n_scored INTEGER;
ALTER TABLE slices ADD COLUMN items_hash VARCHAR;
ALTER TABLE testsets ADD COLUMN items_hash VARCHAR;

CREATE VIEW published AS
    SELECT * FROM publications
    QUALIFY row_number() OVER (PARTITION BY testset ORDER BY published_at DESC) = 1;
CREATE OR REPLACE VIEW latest_fits AS
    SELECT f.*, p.edition, p.published_at
    FROM published p
    JOIN edition_fits e USING (edition)
    JOIN fits f USING (fit_id);
CREATE OR REPLACE VIEW history AS
    SELECT e.testset, e.edition, e.made_at, f.aggregator, f.fit_id, f.labels_used, f.code_version,
           (SELECT max(p.published_at) FROM publications p WHERE p.edition = e.edition) AS published_at
    FROM editions e
    JOIN edition_fits x USING (edition)
    JOIN fits f USING (fit_id)
    ORDER BY e.testset, e.made_at, f.aggregator;
