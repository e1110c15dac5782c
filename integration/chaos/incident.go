package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/incident"
)

// keepIncident writes the log of a run that has broken a promise to an incident file, and returns
// its name. The file is in the folder where the run was started, for the run's data may be removed.
func (c *Config) keepIncident(records []events.Record, broken []string) (string, error) {
	name := fmt.Sprintf("chaos-%s-%d.mri", strings.TrimSuffix(filepath.Base(c.Scenario), filepath.Ext(c.Scenario)), c.Seed)
	details, err := json.Marshal(struct {
		Scenario string        `json:"scenario"`
		Seed     uint64        `json:"seed"`
		Duration time.Duration `json:"duration"`
		Steps    []Step        `json:"steps,omitempty"`
	}{c.Scenario, c.Seed, c.Duration, c.Steps})
	if err != nil {
		return "", err
	}
	file, err := os.Create(name)
	if err != nil {
		return "", err
	}
	m := incident.Manifest{Made: time.Now().UTC(), Why: strings.Join(broken, "; "), AckWait: c.Layout.AckWait.String(), Details: details}
	return name, errors.Join(incident.WriteAll(file, m, records), file.Close())
}
