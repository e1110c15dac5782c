package bench

import (
	"reflect"
	"testing"

	"millrace/events/jet/streams"
)

// TestBare: the loop is measured on a stream like the log, so that only Millrace's own work
// separates the two.
func TestBare(t *testing.T) {
	is, log := bare(streams.Layout{}), streams.Layout{}.LogStream()
	is.Name, is.Subjects, is.Sources = log.Name, log.Subjects, log.Sources
	if !reflect.DeepEqual(is, log) {
		t.Errorf("the loop's stream is %+v, the log %+v", is, log)
	}
}
