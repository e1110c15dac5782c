package load

import (
	"testing"

	"millrace/events/logtest"
)

// Results that people have kept stay readable: they are what later ones are compared with.
func TestResultCorpus(t *testing.T) { logtest.JSONCorpus[Result](t, "testdata/corpus/load") }
