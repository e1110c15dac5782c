//go:build linux

package child

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/ipc"
)

// orphanMain is a worker that is a subreaper. It runs each shell line to its end, prints the
// outcome and which processes of its own are left then, and ends.
func orphanMain(lines []string) {
	r, err := NewRunner(Config{Orphans: true})
	if err != nil {
		panic(err)
	}
	for _, line := range lines {
		c, s := shell(line), &record{}
		c.Grace = 200 * time.Millisecond
		ctx, cancel := context.WithCancel(context.Background())
		if strings.HasPrefix(line, "stopped;") {
			c.Shell = strings.TrimPrefix(line, "stopped;")
			s.said = make(chan string, 100)
			go func() { <-s.said; cancel() }()
		}
		res := r.Run(ctx, c, s)
		cancel()
		fmt.Printf("class=%s stopped=%v survivors=%d left=%d said=%q\n", res.Class, res.Stopped, res.Survivors, childrenOf(os.Getpid()), s.stdout())
	}
	r.Close()
}

// childrenOf counts the children of a process, zombies included.
func childrenOf(pid int) (n int) {
	for p := range processes() {
		if s, err := readStat(p); err == nil && s.parent == pid {
			n++
		}
	}
	return n
}

var daemons = map[string]string{
	"a daemon":                    `setsid sleep 1000 >/dev/null 2>&1 </dev/null & sleep 0; echo up`,
	"a daemon's daemon":           `setsid sh -c 'setsid sleep 1000 & setsid sleep 1000 & wait' >/dev/null 2>&1 </dev/null & sleep 0.05; echo up`,
	"a deaf daemon":               `setsid sh -c 'trap "" TERM HUP; sleep 1000; sleep 1000' >/dev/null 2>&1 </dev/null & sleep 0.05; echo up`,
	"one without an environment":  `setsid env -i /bin/sleep 1000 >/dev/null 2>&1 </dev/null & sleep 0.05; echo up`,
	"one that keeps the pipes":    `setsid sh -c 'sleep 1000' & sleep 0.05; echo up`,
	"one that has ended":          `setsid true & sleep 0.05; echo up`,
	"stopped, with a deaf daemon": `stopped;setsid sh -c 'trap "" TERM HUP; sleep 1000' >/dev/null 2>&1 </dev/null & sleep 0.05; echo up; wait; sleep 1000`,
}

// TestDaemonsEndWithTheirTask: processes that leave their group are found, and no zombie stays;
// also where the worker is process 1 of its namespace.
func TestDaemonsEndWithTheirTask(t *testing.T) {
	var names, lines []string
	for name, line := range daemons {
		names, lines = append(names, name), append(lines, line)
	}
	for where, argv := range map[string][]string{
		"as any process": {self(t), "orphans"},
		"as process 1":   {"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", self(t), "orphans"},
	} {
		t.Run(where, func(t *testing.T) {
			if argv[0] == "unshare" && exec.Command(argv[0], "--pid", "--fork", "--mount-proc", "true").Run() != nil {
				t.Log("not tested: this machine does not let us make a namespace of processes")
				return
			}
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], lines...)...)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			n := 0
			for scan := bufio.NewScanner(out); scan.Scan(); n++ {
				if !strings.Contains(scan.Text(), "survivors=0 left=0 said=\"up\\n\"") {
					t.Errorf("%s: %s", names[n], scan.Text())
				}
			}
			if err := cmd.Wait(); err != nil || n != len(lines) {
				t.Errorf("%d of %d lines were run: %v", n, len(lines), err)
			}
		})
	}
}

// TestStdinNeverBlocks: a process that does not read its input delays nothing, and one that reads
// late gets everything that was queued, in order.
func TestStdinNeverBlocks(t *testing.T) {
	r := runner(t)
	const sent = 3000
	c := shell(`trap '' TERM; echo up; sleep 0.1; n=0; while read -r line; do n=$((n+1)); case $line in *CANCEL*) echo $n; exit 0;; esac; done`)
	c.OpenStdin, c.Grace = true, time.Minute
	ctx, cancel := context.WithCancel(context.Background())
	s := record{said: make(chan string, 2)}
	c.Started = func(p Process) {
		for i := range sent {
			p.Send(ipc.Ack(ipc.Receipt{ID: strconv.Itoa(i), OK: true}))
		}
		go func() {
			<-s.said // before that, SIGTERM would end it
			cancel()
		}()
	}
	if res := r.Run(ctx, c, &s); res.Unread != 0 || s.stdout() != "up\n"+strconv.Itoa(sent+1)+"\n" {
		t.Errorf("%+v; it read %q", res, s.stdout())
	}

	ctx, cancel = context.WithCancel(context.Background())
	c = Command{Argv: []string{"/bin/sleep", "1000"}, OpenStdin: true}
	c.Started = func(p Process) {
		for i := range 60_000 {
			p.Send(ipc.Ack(ipc.Receipt{ID: strconv.Itoa(i), OK: true}))
		}
		cancel()
	}
	if res := r.Run(ctx, c, &s); res.Unread == 0 || !res.Stopped {
		t.Errorf("%+v", res)
	}
}

func TestUsageTellsOfTheEnd(t *testing.T) {
	res, _ := run(t, "kill -SEGV $$")
	if res.Usage.Signal != "SIGSEGV" || res.Signal != "SIGSEGV" {
		t.Errorf("%+v", res)
	}
	res, _ = stopped(t, `trap 'sleep 0.05; exit 0' TERM; echo up; while :; do sleep 1000 & wait; done`, time.Minute)
	if res.Stop < 30*time.Millisecond {
		t.Errorf("the stop took %v", res.Stop)
	}
}
