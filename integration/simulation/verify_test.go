package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
)

// margin is by how much clocks of histories may be wrong.
const margin = 10 * time.Second

// verified holds a part of a history's log against the promises, as `millrace
// verify` does. Facts that a stranger forged are left out: package verify cannot
// tell them from those of a broken program, and would be right to say so.
func verified(t *testing.T, h *history, cfg verify.Config, part []events.Record) *verify.Report {
	t.Helper()
	cfg.Settings, cfg.Margin = h.bounds(), margin
	v := verify.New(cfg)
	rows := newFold()
	for i := range part {
		r := &part[i]
		if r.Fact.Actor == stranger && r.Fact.Event != nil {
			continue
		}
		if err := v.Add(r); err != nil {
			t.Fatal(err)
		}
		rows.add(r)
		if e, ok := r.Fact.Event.(task.HorizonPurged); ok { // rows go with what the log forgets
			maps.DeleteFunc(rows.tasks, func(_ task.ID, t task.Task) bool { return t.Seq < e.Below })
		}
	}
	for _, k := range rows.tasks {
		v.Row(&k)
	}
	v.RowsEnd()
	return v.Report(time.Time{})
}

// whole verifies a whole history.
func (h *history) whole(t *testing.T) *verify.Report {
	t.Helper()
	return verified(t, h, verify.Config{Settled: true, Acknowledged: slices.Sorted(maps.Keys(h.accepted))}, h.records)
}

// verify has package verify judge all of a history, which fails with the first broken rule: so each
// decision is made again.
func (h *history) verify(t *testing.T) {
	t.Helper()
	found := h.whole(t).Findings
	if first, _ := h.mem.First(context.Background()); first > 1 && len(found) == 0 { // what is left is clean, too
		left := slices.DeleteFunc(slices.Clone(h.records), func(r events.Record) bool { return r.Seq < first })
		found = verified(t, h, verify.Config{From: first}, left).Findings
	}
	for _, f := range found {
		h.blame(f.Task, fmt.Errorf("%w: %v: node %s, %v: %s", errVerify, f.Rule, f.Node, f.Seqs, f.What))
	}
}

// whenever are the rules of any part of a history. A duty that is open in its middle may be late: time
// passes in leaps, and some histories have no scheduler.
var whenever = slices.DeleteFunc(verify.Rules(), func(r verify.Rule) bool {
	return r == verify.Deadlines || r == verify.NoScheduler || r == verify.Survival
})

// The facts of honest programs verify clean in each part of the history, whatever befalls them.
func TestHistoriesVerify(t *testing.T) {
	checked, unjudged := map[verify.Rule]int{}, map[verify.Rule]int{}
	// Verifying a history in seven ways takes as long as playing several, and TestSimulation verifies
	// the whole of each.
	var mu sync.Mutex // guards checked and unjudged
	each(max(min(*historiesFlag/4, many), *historiesFlag/10), func(seed uint64) bool {
		seed += *firstFlag
		h := play(t, seed, variant{})
		h.report(t)
		for name, r := range map[string]*verify.Report{
			"all of it":        h.whole(t),
			"its beginning":    verified(t, h, verify.Config{Rules: whenever}, h.records[:len(h.records)/2]),
			"its end":          verified(t, h, verify.Config{From: h.seen/3 + 1}, h.records[h.seen/3:]),
			"a part of it":     verified(t, h, verify.Config{Rules: whenever, From: h.seen/5 + 1}, h.records[h.seen/5:h.seen*4/5]),
			"its very end":     verified(t, h, verify.Config{From: h.seen*9/10 + 1}, h.records[h.seen*9/10:]),
			"its very birth":   verified(t, h, verify.Config{Rules: whenever}, h.records[:min(len(h.records), 7)]),
			"one of its facts": verified(t, h, verify.Config{Rules: whenever, From: h.seen}, h.records[h.seen-1:]),
		} {
			for _, f := range r.Findings {
				t.Errorf("seed %d, %s: %v: task %s, node %s, %v: %s\n%s", seed, name, f.Rule, f.Task, f.Node, f.Seqs, f.What, telling(h.stories[f.Task]))
			}
			mu.Lock()
			for _, rule := range r.Rules {
				checked[rule.Rule] += rule.Checked
				unjudged[rule.Rule] += rule.Unjudged
			}
			mu.Unlock()
		}
		return !t.Failed()
	})
	for _, rule := range verify.Rules() {
		// There are no schedules, and what is open at the end is older than any deadline.
		if nothing := rule == verify.OneTask || rule == verify.Deadlines; checked[rule] == 0 && !nothing {
			t.Errorf("%v found nothing to check", rule)
		}
	}
	t.Logf("checked: %v; of these not judged: %v", checked, unjudged)
}

// rulesFound are the rules that the log of a history breaks.
func (h *history) rulesFound(t *testing.T) []verify.Rule {
	t.Helper()
	var found []verify.Rule
	for _, f := range h.whole(t).Findings {
		found = append(found, f.Rule)
	}
	return found
}

// Histories that chance brings about once in many thousands, by the fault that each one revealed.
func TestRareHistories(t *testing.T) {
	for what, c := range map[string]struct {
		seed uint64
		kind variant
	}{
		"of two births with bounds of their own, a worker claims the later one and the rate of the queue holds it back after the end of the first": {1084888, variant{}},
		"a pause that a task asked for shuts the rate of its queue, and is used up before the admission beside it is judged":                       {73201, variant{}},
		"a worker stands still until the heartbeat that it is about to store comes too late, and a scheduler has given its attempt to another one": {527762, variant{}},
		"an old grant of a task is told while its admission in a later turn is on its way":                                                         {7018371, variant{}},
		"a task that must make place has ended and was retried before that is recorded":                                                            {8001087, longCrowds},
		"a log that has lost a node has a claim of its worker, which dies before it registers anew":                                                {682, variant{older: true}},
		"an offer comes while a server reads a task to carry it":                                                                                   {60, variant{forgets: true}},
		"a key is claimed whose last claim the log has just forgotten":                                                                             {24526, variant{forgets: true}},
		"a worker claims the second of two equal births, each under a claim of a key, and the task claims that again":                              {469, variant{forgets: true, roomy: true}},
		"a timer that could not be removed fires for a task that the log has forgotten":                                                            {3878, variant{forgets: true}},
		"the log begins behind the birth of a task and has a repeat of it":                                                                         {3365, variant{forgets: true, roomy: true}},
		"the log begins between an offer and what was carried before it":                                                                           {2533, variant{forgets: true, roomy: true}},
		"the log begins in the life of a task that is carried, and an offer of that life comes late":                                               {20176, variant{forgets: true}},
		"two horizons are chosen before the facts that carry for them":                                                                             {38, variant{forgets: true}},
		"a task that names a node comes after a scheduler has asked for such tasks, and before it retires the node":                                {874, variant{retiring: true}},
	} {
		h := play(t, c.seed, c.kind)
		if !c.kind.older { // what is lost may have been the reason of what is left
			h.verify(t)
		}
		if h.failure != nil {
			t.Errorf("%s: %v", what, h.failure)
		}
	}
}
