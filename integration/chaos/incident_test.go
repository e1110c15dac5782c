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
	name, err := c.keepIncident(nil, []string{"I-3: a", "I-2: b"})
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
}
