package request

import (
	"testing"

	"millrace/events/logtest"
)

// Programs of other versions find a server by its record.
func TestRecordCorpus(t *testing.T) { logtest.JSONCorpus[Server](t, "testdata/corpus/server") }
