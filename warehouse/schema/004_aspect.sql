-- What a judge is to look at, where it differs by item (ASSET: meaning, fluency, simplicity).
ALTER TABLE items ADD COLUMN aspect VARCHAR;
