package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/incident"
	"millrace/task"
)

// sealEnv makes this test program one that seals a log into a folder, and kills itself at a step.
const sealEnv = "MILLRACE_TEST_SEAL"

// killSteps are the steps at which it does: as many writes, then between storing and reading back, and
// when all of it is done.
const killSteps = 6

// suicidal is a folder whose process kills itself at a step.
type suicidal struct {
	incident.Folder
	step *int
}

func (d suicidal) at() {
	if *d.step--; *d.step < 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it does not come back
	}
}

func (d suicidal) Write(b []byte) (int, error) {
	d.at()
	return len(b), nil
}

func (d suicidal) Put(ctx context.Context, write func(io.Writer) (string, error)) error {
	d.at()
	err := d.Folder.Put(ctx, func(to io.Writer) (string, error) { return write(io.MultiWriter(to, d)) })
	d.at()
	return err
}

func sealed(to incident.Place) (task.HorizonSealed, error) {
	log := events.NewMemory(func() time.Time { return noon }, time.Second)
	for i := range 50_000 {
		log.AppendRaw(events.Fact{Queue: "default"}, fmt.Appendf(nil, `{"n":%d}`, i*i))
	}
	return (&incident.Sealer{Log: log, To: to}).Seal(context.Background(), 1, task.HorizonChosen{Span: task.Span{Below: 45_000, Before: noon}})
}

// sealAndDie is the other program.
func sealAndDie(dir string) {
	step, err := strconv.Atoi(os.Getenv(sealEnv))
	if err == nil {
		_, err = sealed(suicidal{incident.Folder(dir), &step})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A server that is killed while it seals leaves the whole segment, or none; the next one makes it.
func TestKilledWhileSealing(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := sealed(incident.Folder(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	killed, dir := 0, incident.Folder(t.TempDir())
	for step := range killSteps {
		// #nosec G204 -- this test program itself
		c := exec.CommandContext(t.Context(), self, "-test.run=^$", string(dir))
		c.Env = append(os.Environ(), sealEnv+"="+strconv.Itoa(step))
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
			killed++
		case err != nil:
			t.Fatalf("step %d: %v: %s", step, err, out)
		}
		found, err := incident.OpenArchive(t.Context(), dir, nil)
		if errors.Is(err, os.ErrNotExist) {
			continue // it had not begun
		}
		if err != nil || len(found.Faults) > 0 {
			t.Fatalf("step %d: %v, %v", step, err, found.Faults)
		}
		for _, s := range found.Segments {
			if s.Name != want.Segment || s.Digest != want.Digest {
				t.Errorf("step %d left %s, want %s", step, s.Name, want.Segment)
			}
		}
	}
	if killed < 4 {
		t.Errorf("only %d were killed", killed)
	}
	again, err := sealed(dir)
	if err != nil || again != want {
		t.Errorf("the next one sealed %+v, %v; want %+v", again, err, want)
	}
	if all, err := filepath.Glob(filepath.Join(string(dir), "0*")); err != nil || len(all) != 1 {
		t.Errorf("%v: there are %v", err, all)
	}
}
