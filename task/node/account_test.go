package node

import (
	"slices"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/value"
)

// The evidence of a node and its heartbeat about the lease of an attempt that its session s1
// claimed as epoch 7.
func TestAccount(t *testing.T) {
	const lease = 30 * time.Second
	now, claimed, stored := noon.Add(time.Hour), noon, noon.Add(time.Minute)
	live := task.Task{Epoch: 7, Session: "s1"}
	with := profile
	with.TTL = value.Duration(6 * time.Second)
	beats := Node{ID: "n1", State: Ready, Session: "s1", Profile: with}
	succeeded := given(after(ready, Registered{Session: "s2"})...)
	for _, c := range []struct {
		name  string
		node  Node
		pulse Pulse
		want  task.Account // beside the constant parts
	}{
		{"nothing is known", Node{ID: "n1"}, Pulse{}, task.Account{}},
		{"the log has lost the node, and the heartbeat ran out", Node{ID: "n1"}, Pulse{Stored: stored, RanOut: true}, task.Account{Silent: stored}},
		{"and another session has written over it", Node{ID: "n1"}, Pulse{Beat: Heartbeat{Session: "s2"}, Stored: stored}, task.Account{Named: stored}},
		{"it beats and names it", beats, Pulse{Beat: Heartbeat{Session: "s1", Runs: []uint64{3, 7}}, Stored: stored}, task.Account{Named: stored, Beats: with.TTL}},
		{"it beats and does not name it", beats, Pulse{Beat: Heartbeat{Session: "s1", Runs: []uint64{3}}, Stored: stored}, task.Account{}},
		{"an earlier session has written over it", beats, Pulse{Beat: Heartbeat{Session: "s0", Runs: []uint64{3}}, Stored: stored}, task.Account{Named: stored, Beats: with.TTL}},
		{"its heartbeat ran out", beats, Pulse{Stored: stored, RanOut: true}, task.Account{Silent: stored.Add(-6 * time.Second)}},
		{"one of a length that is not known", given(ready...), Pulse{Stored: stored, RanOut: true}, task.Account{Silent: stored}},
		{"it took its heartbeat back", beats, Pulse{Stored: stored}, task.Account{Silent: stored}},
		{"neither heartbeat nor mark", beats, Pulse{}, task.Account{}},
		{"it is offline", given(offline...), Pulse{}, task.Account{Over: at(4)}},
		{"by a clock that is ahead", given(after(ready, WentOffline{Session: "s1"})...), Pulse{Now: at(4).Add(-time.Second)}, task.Account{Now: at(4).Add(-time.Second), Over: at(4).Add(-time.Second)}},
		{"it is offline, and beats", given(offline...), Pulse{Beat: Heartbeat{Session: "s1"}, Stored: stored}, task.Account{}},
		{"it is offline, and names it", given(offline...), Pulse{Beat: Heartbeat{Session: "s1", Runs: []uint64{7}}, Stored: stored}, task.Account{Named: stored}},
		{"it has a successor", succeeded, Pulse{Beat: Heartbeat{Session: "s2"}, Stored: stored}, task.Account{Over: at(4).Add(Succession)}},
		{"whose heartbeat ran out", succeeded, Pulse{Stored: stored, RanOut: true}, task.Account{Over: at(4).Add(Succession)}},
	} {
		if c.pulse.Now.IsZero() {
			c.pulse.Now, c.want.Now = now, now
		}
		c.want.Epoch, c.want.Session, c.want.Claimed, c.want.Lease = 7, "s1", claimed, value.Duration(lease)
		c.want.From = task.LeaseBy{Node: c.node.Head, At: c.pulse.Now, Lasts: value.Duration(lease), Beat: c.pulse.Stored, Session: c.pulse.Beat.Session,
			Named: slices.Contains(c.pulse.Beat.Runs, 7), TTL: c.pulse.Beat.TTL, RanOut: c.pulse.RanOut}
		if got := c.node.Account(&live, claimed, c.pulse, lease); got != c.want {
			t.Errorf("%s:\n%+v\nwant\n%+v", c.name, got, c.want)
		}
	}
}
