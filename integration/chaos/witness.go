package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// Witness is a shell script that runs a command and records that it runs: a line when it begins,
// five per second while it goes on, and one when it ends, to a file outside the log. Times are
// those of the machine's clock that is never set. Only the running program shows whether two
// attempts of one task run at one time: the log may hold one for dead that does not know of it.
//
//	sh SCRIPT FILE COMMAND [ARGUMENT...]
const Witness = `say() { read -r now _ </proc/uptime; echo "$1 $MILLRACE_TASK $MILLRACE_NODE $MILLRACE_ATTEMPT.$$ $now" >>"$file"; }
file=$1
shift
say begins
(while sleep 0.2; do say runs; done) &
watch=$!
"$@"
code=$?
kill "$watch"
say ends
exit "$code"
`

// Stint is one run of a task, as its witness recorded it.
type Stint struct {
	Task task.ID
	Node string
	// Who identifies the attempt and its process.
	Who string
	// Began and Last are its first and last line, in seconds since the machine started. It may have
	// run for a moment longer.
	Began, Last float64
}

// ReadStints parses what witnesses have written.
func ReadStints(text string) ([]*Stint, error) {
	var all []*Stint
	open := map[string]*Stint{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 5 || !strings.HasSuffix(line, "\n") {
			return nil, fmt.Errorf("the line %q is no word of a witness", line)
		}
		at, err := strconv.ParseFloat(f[4], 64)
		if err != nil {
			return nil, fmt.Errorf("the line %q is no word of a witness: %w", line, value.Plainly(err))
		}
		key := f[1] + " " + f[3]
		if f[0] == "begins" {
			open[key] = &Stint{Task: task.ID(f[1]), Node: f[2], Who: f[3], Began: at, Last: at}
			all = append(all, open[key])
			continue
		}
		s := open[key]
		if s == nil {
			return nil, fmt.Errorf("the line %q is of a run that has not begun", line)
		}
		s.Last = at
	}
	return all, nil
}

// Overlap is a run that began while another one of the same task still ran.
type Overlap struct{ First, Second *Stint }

func (o Overlap) String() string {
	return fmt.Sprintf("task %s: attempt %s began on %s while %s still ran on %s, for %.2fs at least",
		o.Second.Task, o.Second.Who, o.Second.Node, o.First.Who, o.First.Node, o.First.Last-o.Second.Began)
}

// Overlaps finds the runs that began while another one of their task still ran.
func Overlaps(all []*Stint) []Overlap {
	byTask := map[task.ID][]*Stint{}
	for _, s := range all {
		byTask[s.Task] = append(byTask[s.Task], s)
	}
	var found []Overlap
	for _, runs := range byTask {
		slices.SortFunc(runs, func(a, b *Stint) int { return cmp.Compare(a.Began, b.Began) })
		for i, s := range runs[1:] {
			before := slices.MaxFunc(runs[:i+1], func(a, b *Stint) int { return cmp.Compare(a.Last, b.Last) })
			if s.Began < before.Last {
				found = append(found, Overlap{before, s})
			}
		}
	}
	slices.SortFunc(found, func(a, b Overlap) int { return cmp.Compare(a.Second.Began, b.Second.Began) })
	return found
}

// witnesses are the witnesses of a run.
type witnesses struct{ dir string }

func newWitnesses(dir string) (*witnesses, error) {
	w := &witnesses{dir}
	return w, os.WriteFile(w.script(), []byte(Witness), 0o600)
}

func (w *witnesses) script() string { return filepath.Join(w.dir, "witness") }
func (w *witnesses) file() string   { return filepath.Join(w.dir, "runs") }

// attend makes the command of a task record that it runs.
func (w *witnesses) attend(r *job.Run) {
	command := r.Argv
	if r.Shell != "" {
		command = []string{"sh", "-c", r.Shell}
	}
	r.Shell, r.Argv = "", append([]string{"sh", w.script(), w.file()}, command...)
}

// witnessed is what witnesses have recorded: which runs overlapped, where limits were exceeded, and
// how many witnesses there were.
type witnessed struct {
	overlapping, exceeded []string
	limits                LimitsReport
	runs                  int
}

// judge summarises the witnesses' records. A suspended worker cannot stop what it runs, so an
// overlap or an excess for that reason breaks no promise.
func (w *witnesses) judge(faults []Injected, tasks map[task.ID]limited) (seen witnessed, err error) {
	text, err := os.ReadFile(w.file())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return seen, err
	}
	up, err := uptime()
	if err != nil {
		return seen, err
	}
	all, err := ReadStints(string(text))
	if err != nil {
		return seen, err
	}
	started := time.Now().Add(-up) // of the machine
	for _, o := range Overlaps(all) {
		began := started.Add(time.Duration(o.Second.Began * float64(time.Second)))
		suspended := slices.ContainsFunc(faults, func(f Injected) bool {
			return f.Fault == Pause && string(f.Target) == o.First.Node && f.Began.Before(began) && (f.Ended.IsZero() || f.Ended.Add(time.Second).After(began))
		})
		if !suspended {
			seen.overlapping = append(seen.overlapping, "I-3: two attempts ran at once: "+o.String())
		}
	}
	seen.limits, seen.exceeded = judgeLimits(all, tasks, func(s *Stint) float64 { return suspendedAt(s, faults, started) })
	seen.runs = len(all)
	return seen, nil
}

// suspendedAt returns when the worker of a run was first suspended during it, in seconds since the
// machine started.
func suspendedAt(s *Stint, faults []Injected, started time.Time) float64 {
	first := math.Inf(1)
	for _, f := range faults {
		at := f.Began.Sub(started).Seconds()
		if f.Fault == Pause && string(f.Target) == s.Node && at >= s.Began && at <= s.Last {
			first = min(first, at)
		}
	}
	return first
}

// uptime returns how long the machine is up.
func uptime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	return time.Duration(seconds * float64(time.Second)), err
}
