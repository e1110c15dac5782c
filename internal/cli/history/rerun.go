package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/rerun"
	"millrace/task"
)

// rerunReport is what `replay --with` prints with -o json.
type rerunReport struct {
	// Tasks is how many ran again.
	Tasks int `json:"tasks"`
	// Left are the functions that no worker of the program has, with how many tasks they have.
	Left map[string]int `json:"left,omitempty"`
	// Differs is the first difference; nil for none.
	Differs *rerunDifference `json:"differs,omitempty"`
}

type rerunDifference struct {
	Task     task.ID       `json:"task"`
	Function string        `json:"function"`
	Seq      uint64        `json:"seq"`
	Recorded rerun.Outcome `json:"recorded"`
	Now      rerun.Outcome `json:"now"`
}

// rerun has a program run recorded tasks again.
func (a *Commands) rerun(ctx context.Context, f *replayFlags, file string, until view.Moment) error {
	words, err := settings.Words(f.with)
	if err == nil && len(words) == 0 {
		err = errors.New("it names no program")
	}
	if err != nil {
		return term.MisuseOf(fmt.Errorf("--with: %w", err))
	}
	log, err := a.recorded(ctx, f, file, until)
	if err != nil {
		return err
	}
	if file == "" {
		cl, err := a.Connect(ctx)
		if err != nil {
			return err
		}
		defer cl.Close()
		log.Apart = func(id task.ID, digest string, size int) ([]byte, error) {
			return cl.Store().StepResult(ctx, id, digest, size)
		}
	}
	if id := task.ID(f.focus[0]); id != "" {
		log.Endings = slices.DeleteFunc(log.Endings, func(e rerun.Ending) bool { return e.Task != id })
	}
	if len(log.Endings) == 0 {
		return &term.Fault{Code: term.ExitNotFound, Err: errors.New("there is no task of a function whose last attempt has ended by itself")}
	}
	is := rerunReport{Left: map[string]int{}}
	for i := range log.Endings {
		is.Left[log.Endings[i].Function]++
	}
	differs := ""
	err = a.runBeside(ctx, log, words, func(e *rerun.Ending, now rerun.Outcome) bool {
		is.Tasks++
		if is.Left[e.Function]--; is.Left[e.Function] == 0 {
			delete(is.Left, e.Function)
		}
		if differs = e.Differs(now); differs != "" {
			is.Differs = &rerunDifference{e.Task, e.Function, e.Seq, e.Says, now}
		}
		return differs == ""
	})
	switch {
	case err != nil:
		return err
	case is.Tasks == 0:
		return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("no worker of the program has one of the functions %s", strings.Join(slices.Sorted(maps.Keys(is.Left)), ", "))}
	case f.JSON():
		err = a.WriteJSON(is)
	case differs != "":
		for line := range strings.SplitSeq(differs, "\n") {
			_, err = fmt.Fprintln(a.Out, term.Printable(line))
		}
	default:
		_, err = fmt.Fprintf(a.Out, "%s as recorded\n", wording.Plural(is.Tasks, "task"))
		for _, name := range slices.Sorted(maps.Keys(is.Left)) {
			a.Note("left out, for no worker of the program has the function: %s of %s", wording.Plural(is.Left[name], "task"), name)
		}
	}
	if err == nil && differs != "" {
		err = term.ExitWith(replayNone)
	}
	return err
}

// longestDir is how long the name of a folder with a socket may be: the system takes 104 to 108 bytes with the
// socket's own, and TMPDIR may be longer.
const longestDir = 100

// runBeside starts the program, and calls each with what comes of each task, until that returns false.
func (a *Commands) runBeside(ctx context.Context, log *rerun.Log, words []string, each func(*rerun.Ending, rerun.Outcome) bool) error {
	dir, err := os.MkdirTemp("", "mr-replay-")
	if err == nil && len(dir) > longestDir {
		_ = os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "mr-replay-")
	}
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, "s")
	socket, err := new(net.ListenConfig).Listen(ctx, "unix", at)
	if err != nil {
		return err
	}
	defer socket.Close()
	serving, enough := context.WithCancel(ctx)
	defer enough()
	running, end := context.WithCancel(ctx)
	defer end()
	wait, err := a.Beside(running, words, rerun.Variable+"="+at)
	if err != nil {
		return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("--with: %w", err)}
	}
	late := time.AfterFunc(10*time.Second, func() {
		a.Note("no worker of the program has asked for tasks yet, which it does where the program calls Work: still waiting for that")
	})
	defer late.Stop()
	ended := make(chan error, 1)
	go func() {
		ended <- wait()
		enough()
	}()
	err = log.Serve(serving, socket, func(e *rerun.Ending, now rerun.Outcome) bool {
		late.Stop()
		return each(e, now)
	})
	early := serving.Err() != nil && ctx.Err() == nil
	end()
	why := <-ended
	if err == nil && early && why != nil {
		err = fmt.Errorf("the program ends before its tasks have run: %w", why)
	}
	return err
}

// recorded is what a file, or the log, has recorded.
func (a *Commands) recorded(ctx context.Context, f *replayFlags, file string, until view.Moment) (*rerun.Log, error) {
	var all []events.Record
	if file == "" {
		err := a.live(ctx, until, func(connect.Rules, events.Import) func(*events.Record) error {
			return func(r *events.Record) error { all = append(all, *r); return nil }
		})
		return rerun.LogOf(all), err
	}
	t, err := a.open(file, f.bound)
	if err != nil {
		return nil, err
	}
	defer t.shut()
	if t.incident {
		is, err := t.read()
		if err != nil {
			return nil, err
		}
		for r, err := range is.Facts() {
			if err == nil && !behind(until, &r) {
				all = append(all, r)
			}
		}
		log := rerun.LogOf(all)
		log.Apart = is.Result
		return log, nil
	}
	all, err = rerun.ReadExport(t)
	return rerun.LogOf(slices.DeleteFunc(all, func(r events.Record) bool { return behind(until, &r) })), err
}
