package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/incident"
	"millrace/history/verify"
	"millrace/internal/cli/wording"
	"millrace/task"
	"millrace/task/duties"
)

// Judgement is what a log says about the promises.
type Judgement struct {
	// Tasks is the number of tasks.
	Tasks int
	// Lost are acknowledged submissions that the log does not have, Duplicated tasks with two
	// accepted ends in one life, Stuck those that have not ended.
	Lost, Duplicated, Stuck []task.ID
	// Broken says which promises are broken, and where to look.
	Broken []string
	// Odd lists records of the log that should not have been written.
	Odd []string
	// States counts the tasks by state.
	States map[task.State]int
	// Decisions is how many there are, Unjudged how many of them were not made again.
	Decisions, Unjudged int
}

// judge checks a log that has come to rest against the promises, with the rows of a read model if
// there are any. This is the only place that decides whether a run was good. The counts are its
// own, the promises those of package verify.
func judge(records []events.Record, rows []task.Task, acknowledged []task.ID, rules duties.Settings) Judgement {
	j := count(records, acknowledged)
	if acknowledged == nil {
		acknowledged = []task.ID{} // an empty list, not "unknown"
	}
	v := verify.New(verify.Config{Settled: true, Settings: rules, Acknowledged: acknowledged, Keep: 10})
	for i := range records {
		if err := v.Add(&records[i]); err != nil {
			j.Broken = append(j.Broken, err.Error())
		}
	}
	for i := range rows {
		v.Row(&rows[i])
	}
	if rows != nil {
		v.RowsEnd()
	}
	report := v.Report(time.Time{})
	for _, r := range report.Rules {
		if r.Rule == verify.Decisions {
			j.Decisions, j.Unjudged = r.Checked, r.Unjudged
		}
	}
	for _, f := range report.Findings {
		about := string(f.Task) + string(f.Node)
		j.Broken = append(j.Broken, fmt.Sprintf("%s: %s: %s %s", f.Rule, about, f.What, wording.Seqs(f.Seqs, len(f.Seqs))))
	}
	if more := report.Violations - len(report.Findings); more > 0 {
		j.Broken = append(j.Broken, fmt.Sprintf("and %d more", more))
	}
	j.Broken = append(j.Broken, verify.Spins(records)...)
	if report.Poison > 0 {
		j.Odd = append(j.Odd, fmt.Sprintf("%d messages cannot be understood: %s", report.Poison, wording.Seqs(report.PoisonSeqs, report.Poison)))
	}
	for kind, n := range report.Unknown {
		j.Odd = append(j.Odd, fmt.Sprintf("%d facts are of the unknown type %s", n, kind))
	}
	return j
}

// count counts what a report shows as numbers.
func count(records []events.Record, acknowledged []task.ID) Judgement {
	j := Judgement{States: map[task.State]int{}}
	tasks := map[task.ID]task.Task{}
	ended := map[task.ID]bool{} // in the current life
	var order []task.ID
	for i := range records {
		r := &records[i]
		id := r.Fact.Task
		if id == "" {
			continue
		}
		t, known := tasks[id]
		if !known {
			t.ID = id
			order = append(order, id)
		}
		tasks[id] = task.Evolve(t, r.Task())
		switch {
		case r.Fact.Type == events.TaskReopened:
			ended[id] = false
		case ends(r):
			if ended[id] && !slices.Contains(j.Duplicated, id) {
				j.Duplicated = append(j.Duplicated, id)
			}
			ended[id] = true
		}
	}
	for _, id := range order {
		t := tasks[id]
		if j.States[t.State]++; !t.State.Terminal() {
			j.Stuck = append(j.Stuck, id)
		}
	}
	j.Tasks = len(order)
	for _, id := range acknowledged {
		if _, ok := tasks[id]; !ok {
			j.Lost = append(j.Lost, id)
		}
	}
	say := func(what string, ids []task.ID) {
		if len(ids) > 0 {
			j.Broken = append(j.Broken, fmt.Sprintf("%d %s: %s", len(ids), what, some(ids)))
		}
	}
	say("acknowledged submissions are not in the log", j.Lost)
	say("tasks have two accepted ends", j.Duplicated)
	say("tasks have not ended", j.Stuck)
	return j
}

// ends tells whether a fact ends its task's life.
func ends(r *events.Record) bool {
	switch e := r.Fact.Event.(type) {
	case task.AttemptFinished, task.CancelConfirmed, task.GivenUp:
		return true
	case task.AttemptFailed:
		return e.Retry == nil
	}
	return false
}

// some names the first of many tasks.
func some(ids []task.ID) string {
	const most = 5
	words := make([]string, 0, most)
	for _, id := range ids[:min(len(ids), most)] {
		words = append(words, string(id))
	}
	text := strings.Join(words, ", ")
	if len(ids) > most {
		text += fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return text
}

// keepIncident writes the log of a run that has broken a promise to an incident file, and returns
// its name. The file is in the folder where the run was started, for the run's data may be removed.
func (c *Config) keepIncident(records []events.Record, broken []string) (string, error) {
	if i := slices.IndexFunc(records, func(r events.Record) bool { return r.IsFact() && len(r.Raw) == 0 }); i >= 0 {
		return "", fmt.Errorf("#%d was read without its message", records[i].Seq)
	}
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
