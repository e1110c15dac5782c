package bench

import (
	"testing"

	"millrace/events/logtest"
)

// Reports of `millrace bench --json` that people have kept stay readable.
func TestReportCorpus(t *testing.T) { logtest.JSONCorpus[Report](t, "testdata/corpus/report") }
