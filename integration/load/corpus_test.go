package load

import (
	"testing"

	"millrace/events/logtest"
)

// Stored results stay readable: later results are compared with them.
func TestResultCorpus(t *testing.T) { logtest.JSONCorpus[Result](t, "testdata/corpus/load") }
