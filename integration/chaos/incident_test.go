package chaos

import (
	"os"
	"testing"

	"millrace/history/incident"
)

// A run that broke a promise leaves its log in a file, with the plan and the broken promises.
func TestIncident(t *testing.T) {
	t.Chdir(t.TempDir())
	c := Config{Scenario: "./outage.yaml", Seed: 7}
	var told story
	told.born(1, "t")
	if _, err := c.keepIncident(told.records, nil); err == nil {
		t.Error("a log without its messages is kept")
	}
	told.records[0].Raw = []byte(`{"type":"task.submitted"}`)
	name, err := c.keepIncident(told.records, []string{"I-3: a", "I-2: b"})
	if err != nil || name != "chaos-outage-7.mri" {
		t.Fatal(name, err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := incident.Open(data)
	if err != nil || len(f.Missing) > 0 || f.Manifest.Why != "I-3: a; I-2: b" {
		t.Errorf("%+v, %v", f, err)
	}
	for r, err := range f.Whole() {
		if err != nil || string(r.Raw) != string(told.records[0].Raw) {
			t.Errorf("%s, %v", r.Raw, err)
		}
	}
}
