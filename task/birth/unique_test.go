package birth_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// whiles lists states in which a task keeps its key.
func whiles(states ...string) job.Unique { return job.Unique{While: states} }

// A task has its key in the states that its job names, by default until it has ended, and at most
// for the time to live.
func TestLocks(t *testing.T) {
	hour := job.Unique{TTL: value.Duration(time.Hour)}
	for _, c := range []struct {
		name string
		u    job.Unique
		is   task.State
		age  time.Duration
		want bool
	}{
		{"it was never born", job.Unique{}, task.Unknown, 0, false},
		{"it was never born, and such tasks are named", whiles("unknown"), task.Unknown, 0, false},
		{"it waits", job.Unique{}, task.Pending, 0, true},
		{"it is held", job.Unique{}, task.Held, 0, true},
		{"it is due later", job.Unique{}, task.Scheduled, 0, true},
		{"it runs", job.Unique{}, task.Running, 0, true},
		{"it is tried again", job.Unique{}, task.Retrying, 0, true},
		{"it is being cancelled", job.Unique{}, task.Cancelling, 0, true},
		{"it has finished", job.Unique{}, task.Finished, 0, false},
		{"it has failed", job.Unique{}, task.Error, 0, false},
		{"it is cancelled", job.Unique{}, task.Cancelled, 0, false},
		{"it ended abnormally", job.Unique{}, task.Abnormal, 0, false},
		{"it runs, and the key holds while it waits", whiles("pending", "scheduled"), task.Running, 0, false},
		{"it waits, and the key holds while it waits", whiles("pending", "scheduled"), task.Pending, 0, true},
		{"it has finished, and the key holds on", whiles("pending", "finished"), task.Finished, 0, true},
		{"within the time to live", hour, task.Running, time.Hour, true},
		{"beyond the time to live", hour, task.Running, time.Hour + 1, false},
		{"beyond the time to live, in a named state", job.Unique{While: []string{"finished"}, TTL: hour.TTL}, task.Finished, 2 * time.Hour, false},
	} {
		k := task.Task{State: c.is, SubmittedAt: noon}
		if got := birth.Locks(&k, &c.u, noon.Add(c.age)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// had is a claimant under the key k, born at a sequence.
func had(id task.ID, is task.State, born uint64) birth.Claimant {
	return birth.Claimant{ID: id, State: is, Submitted: noon, Born: born, Seq: born, Key: "j/k"}
}

// unborn is a claimant that the log has no birth of.
func unborn(id task.ID) birth.Claimant { return birth.Claimant{ID: id} }

// Of the claimants of a key, those that have it are in the way of another task.
func TestInTheWay(t *testing.T) {
	other := had("b", task.Running, 2)
	other.Key = "j/other"
	for _, c := range []struct {
		name  string
		known []birth.Claimant
		want  task.ID
	}{
		{"none has claimed it", nil, ""},
		{"one has it", []birth.Claimant{had("b", task.Running, 2)}, "b"},
		{"one has ended", []birth.Claimant{had("b", task.Finished, 2)}, ""},
		{"one was never born", []birth.Claimant{unborn("b")}, ""},
		{"one was born under another key", []birth.Claimant{other}, ""},
		{"an earlier one has it", []birth.Claimant{unborn("c"), had("b", task.Running, 2)}, "b"},
		{"the latest of several has it", []birth.Claimant{had("c", task.Pending, 4), had("b", task.Running, 2)}, "c"},
		{"it is the task itself", []birth.Claimant{had("a", task.Running, 2)}, ""},
		{"it is the task itself, and another", []birth.Claimant{had("a", task.Running, 4), had("b", task.Running, 2)}, "b"},
		{"it has no id", []birth.Claimant{had("", task.Running, 2)}, ""},
	} {
		got := task.ID("")
		if is := birth.InTheWay(&job.Unique{}, "a", "j/k", c.known, noon); is != nil {
			got = is.ID
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Task a claims a key after the claim at sequence 10.
func TestNextClaim(t *testing.T) {
	for _, c := range []struct {
		name   string
		known  []birth.Claimant
		lapsed bool // a has waited long enough for the holder's birth
		before string
		taken  task.ID
		more   bool // a must wait for the birth of the holder
	}{
		{name: "nothing has claimed it"},
		{name: "its holder was born and has it", known: []birth.Claimant{had("b", task.Running, 11)}, taken: "b"},
		{name: "its holder was born and has ended", known: []birth.Claimant{had("b", task.Finished, 11)}, before: "[b]"},
		{name: "its holder may still be born", known: []birth.Claimant{unborn("b")}, more: true},
		{name: "its holder was not born in time", known: []birth.Claimant{unborn("b")}, lapsed: true, before: "[b]"},
		{name: "its holder has ended before and may be reopened", known: []birth.Claimant{had("b", task.Finished, 5)}, more: true},
		{name: "its holder has ended before and was not reopened in time", known: []birth.Claimant{had("b", task.Finished, 5)}, lapsed: true, before: "[b]"},
		{name: "its holder is a itself, which was not born", known: []birth.Claimant{unborn("a")}, before: "[a]"},
		{name: "its holder was not born in time, and the one before has it", known: []birth.Claimant{unborn("c"), had("b", task.Running, 4)}, lapsed: true, taken: "b"},
		{name: "its holder was not born in time, and the one before has ended", known: []birth.Claimant{unborn("c"), had("b", task.Finished, 4)}, lapsed: true, before: "[c b]"},
		{name: "of several that have ended only the first known counts", known: []birth.Claimant{unborn("d"), had("c", task.Finished, 8), had("b", task.Finished, 4)}, lapsed: true, before: "[d c]"},
		{name: "one that has not ended is kept, though its key no longer holds", known: []birth.Claimant{unborn("d"), had("c", task.Finished, 8), {ID: "b", State: task.Running, Submitted: noon, Born: 4, Seq: 6, Key: "j/before"}}, lapsed: true, before: "[d c b]"},
		{name: "those that were never born are forgotten", known: []birth.Claimant{unborn("d"), unborn("c"), had("b", task.Finished, 4)}, lapsed: true, before: "[d b]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			next, taken, more := birth.NextClaim(&job.Unique{}, "a", "j/k", 10, c.known, c.lapsed, noon)
			by := task.ID("")
			if taken != nil {
				by = taken.ID
			}
			if c.before == "" {
				c.before = "[]"
			}
			if next.Holder != "a" || by != c.taken || more != c.more {
				t.Errorf("the holder is %q, taken by %q, wait %v; want a, %q, %v", next.Holder, by, more, c.taken, c.more)
			}
			if before := fmt.Sprint(next.Before); taken == nil && !more && before != c.before {
				t.Errorf("it remembers %s, want %s", before, c.before)
			}
		})
	}
}

// However often submitters die between claim and birth, the task that has the key stays known.
func TestNextClaimKeepsTheHolder(t *testing.T) {
	holder := had("h", task.Running, 2)
	before := []task.ID{"h"}
	for n := range 20 {
		dead := task.ID(fmt.Sprintf("dead%d", n))
		known := []birth.Claimant{unborn(dead)}
		for _, id := range before {
			if id == "h" {
				known = append(known, holder)
			} else {
				known = append(known, unborn(id))
			}
		}
		_, taken, _ := birth.NextClaim(&job.Unique{}, "a", "j/k", uint64(10+n), known, true, noon)
		if taken == nil || taken.ID != "h" {
			t.Fatalf("after %d dead submitters the key is free", n+1)
		}
		// The key's rule lets this one through, though h still runs.
		next, taken, more := birth.NextClaim(&job.Unique{While: []string{"pending"}}, "a", "j/k", uint64(10+n), known, true, noon)
		if taken != nil || more {
			t.Fatalf("it is taken by %+v, wait %v", taken, more)
		}
		before = next.Before
	}
}

// A claim names what it was decided on, so that it can be made again.
func TestClaimedBy(t *testing.T) {
	known := []birth.Claimant{had("b", task.Running, 11), unborn("c")}
	u := job.Unique{Key: "k", TTL: value.Duration(time.Hour)}
	for _, c := range []struct {
		name   string
		u      job.Unique
		known  []birth.Claimant
		lapsed bool
		want   *task.By
	}{
		{"nothing has claimed it", u, nil, false, nil},
		{"the ends of the claimants", job.Unique{Key: "k"}, known, false, &task.By{Ends: []uint64{11, 0}}},
		{"that the wait was over", job.Unique{Key: "k"}, known, true, &task.By{Ends: []uint64{11, 0}, Rule: task.RuleLapsed}},
		{"when a key is taken, without the key", u, known, false, &task.By{Ends: []uint64{11, 0}, Unique: &job.Unique{TTL: u.TTL}}},
		{"the states", job.Unique{Key: "k", While: []string{"running"}}, known, false, &task.By{Ends: []uint64{11, 0}, Unique: &job.Unique{While: []string{"running"}}}},
	} {
		if got := birth.ClaimedBy(&c.u, c.known, c.lapsed); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Keys of bounded queues are told from those of tasks.
func TestRoomKey(t *testing.T) {
	if key := birth.RoomKey("crawl"); !birth.IsRoomKey(key) || birth.IsRoomKey("crawl/"+key) || birth.RoomKey("a") == key {
		t.Errorf("the key is %q", key)
	}
}
