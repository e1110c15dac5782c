package history

import (
	"bufio"
	"bytes"
	"os"
	"testing"

	"millrace/history/incident"
	"millrace/internal/cli/settings"
	"millrace/projections/view"
)

// A damaged part that holds no facts leaves no gap to step over, and is told all the same.
func TestDamageBesideFacts(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile("../../../examples/incidents/reconnected-old.mri")
	if err != nil {
		t.Fatal(err)
	}
	beside := 0
	for at := range whole {
		data := bytes.Clone(whole)
		data[at] ^= 1
		f, err := incident.Open(data)
		if err != nil || len(f.Missing) == 0 {
			continue
		}
		from, err := incidentSource(&text{Reader: bufio.NewReader(bytes.NewReader(data))}, kept{}, settings.Values{}, [2]view.Moment{})
		if err != nil {
			t.Fatalf("with byte %d changed: %v", at, err)
		}
		if len(from.span.Gaps())+len(from.beside) == 0 {
			t.Errorf("with byte %d changed it says nothing of %+v", at, f.Missing)
		}
		if len(from.beside) > 0 {
			beside++
		}
	}
	if beside == 0 {
		t.Error("no change of a byte damages a part beside the facts")
	}
}
