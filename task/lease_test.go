package task_test

import (
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

const lease = 30 * time.Second

// Whether a lease has ended, by all evidence in the log.
func TestAccount(t *testing.T) {
	ends := logtest.Given(logtest.Running...)
	outlives := ends
	outlives.Spec = &job.Spec{Run: &job.Run{Shell: "x"}, OnRestart: job.RestartAdopt}
	sec := func(s float64) time.Time { return logtest.Noon.Add(time.Duration(s * float64(time.Second))) }
	for _, c := range []struct {
		name string
		task task.Task
		// All times are in seconds since noon, when the task was claimed.
		account task.Account
		until   time.Time
		ground  string
		heard   time.Time
	}{
		{"nothing was heard since the claim", ends, task.Account{}, sec(30), task.GroundClaim, sec(0)},
		{"a heartbeat names it", ends, task.Account{Named: sec(40)}, sec(70), task.GroundBeat, sec(40)},
		{"one that lasts longer than a lease", ends, task.Account{Named: sec(40), Beats: value.Duration(time.Minute)}, sec(70), task.GroundBeat, sec(40)},
		{"one that does not", ends, task.Account{Named: sec(40), Beats: value.Duration(15 * time.Second)}, sec(55), task.GroundBeat, sec(40)},
		{"one that runs out before the claim's lease", ends, task.Account{Named: sec(5), Beats: value.Duration(15 * time.Second)}, sec(30), task.GroundBeat, sec(5)},
		{"one of before the adoption", ends, task.Account{Claimed: sec(50), Named: sec(40)}, sec(80), task.GroundClaim, sec(50)},
		{"its heartbeat ran out soon after the claim", ends, task.Account{Silent: sec(2)}, sec(30), task.GroundSilence, sec(2)},
		{"its heartbeat ran out", ends, task.Account{Silent: sec(500)}, sec(30), task.GroundSilence, sec(500)},
		{"its session is over", ends, task.Account{Over: sec(12)}, sec(12), task.GroundSession, sec(12)},
		{"its session was over later than its lease", ends, task.Account{Over: sec(500)}, sec(30), task.GroundClaim, sec(0)},
		{"its session had counted as over, and claimed it", ends, task.Account{Over: sec(-5)}, sec(30), task.GroundClaim, sec(0)},
		{"outliving, its session had counted as over, and claimed it", outlives, task.Account{Over: sec(-5)}, sec(30), task.GroundClaim, sec(0)},
		{"its session is over, and beats", ends, task.Account{Over: sec(12), Named: sec(13)}, sec(43), task.GroundBeat, sec(13)},

		{"outliving, nothing was heard since the claim", outlives, task.Account{}, sec(30), task.GroundClaim, sec(0)},
		{"outliving, a heartbeat names it", outlives, task.Account{Named: sec(40)}, sec(70), task.GroundBeat, sec(40)},
		{"outliving, one that is shorter than a lease", outlives, task.Account{Named: sec(40), Beats: value.Duration(15 * time.Second)}, sec(70), task.GroundBeat, sec(40)},
		{"outliving, its heartbeat ran out", outlives, task.Account{Silent: sec(500)}, sec(530), task.GroundSilence, sec(500)},
		{"outliving, that is recorded", outlives, task.Account{Silent: sec(500), Over: sec(515)}, sec(530), task.GroundSilence, sec(500)},
		{"outliving, its session said goodbye", outlives, task.Account{Silent: sec(500), Over: sec(499)}, sec(529), task.GroundSession, sec(499)},
		{"outliving, another session has begun", outlives, task.Account{Over: sec(500)}, sec(530), task.GroundSession, sec(500)},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := c.account
			a.Epoch, a.Session, a.Lease = c.task.Epoch, c.task.Session, value.Duration(lease)
			if a.Claimed.IsZero() {
				a.Claimed = logtest.Noon
			}
			until, ground, heard := a.Ends(&c.task)
			if !until.Equal(c.until) || ground != c.ground || !heard.Equal(c.heard) {
				t.Errorf("until %v by %s of %v; want %v by %s of %v", until, ground, heard, c.until, c.ground, c.heard)
			}
			a.Now = c.until.Add(-1)
			if ended, left := a.Ended(&c.task); ended || left != 1 {
				t.Errorf("just before, it has ended: %v, and holds for %v", ended, left)
			}
			a.Now = c.until
			if ended, left := a.Ended(&c.task); !ended || left != 0 {
				t.Errorf("then it has ended: %v, and holds for %v", ended, left)
			}
			took, err := a.TakenOver(&c.task)
			if err != nil || took.Epoch != c.task.Epoch || took.Ground != c.ground || took.Heard != heard || took.Reason == "" {
				t.Errorf("what follows is %+v, %v", took, err)
			}
			a.Epoch++
			if ended, _ := a.Ended(&c.task); ended {
				t.Error("an account of another attempt has ended this one")
			}
		})
	}
}

// A lease from before a leap of the server's clock ends when as much time has passed as it lasts.
func TestAccountOverALeap(t *testing.T) {
	ends := logtest.Given(logtest.Running...)
	sec := func(s float64) time.Time { return logtest.Noon.Add(time.Duration(s * float64(time.Second))) }
	leap := value.Leap{Until: sec(45), By: 10 * time.Minute}
	for name, c := range map[string]struct {
		account task.Account
		now     float64
		ended   bool
		left    time.Duration
	}{
		"named before it":              {task.Account{Named: sec(40)}, 650, false, 20 * time.Second},
		"named before it, and over":    {task.Account{Named: sec(40)}, 671, true, 0},
		"claimed before it, and over":  {task.Account{}, 646, true, 0},
		"named after it":               {task.Account{Named: sec(650)}, 660, false, 20 * time.Second},
		"named after it, and over":     {task.Account{Named: sec(650)}, 681, true, 0},
		"claimed after it, and silent": {task.Account{Claimed: sec(650), Silent: sec(44)}, 660, false, 20 * time.Second},
	} {
		a := c.account
		a.Epoch, a.Session, a.Lease, a.Now = ends.Epoch, ends.Session, value.Duration(lease), sec(c.now)
		if a.Claimed.IsZero() {
			a.Claimed = logtest.Noon
		}
		a = a.After(&ends, leap)
		if ended, left := a.Ended(&ends); ended != c.ended || left != c.left {
			t.Errorf("%s: it has ended: %v, and holds for %v; want %v and %v", name, ended, left, c.ended, c.left)
		}
	}
}
