//go:build linux

package child

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// confined is a Runner, and what it says about this machine.
func confined(t *testing.T, c Confinement, elevate bool) (*Runner, *strings.Builder) {
	t.Helper()
	var said strings.Builder
	r, err := NewRunner(Config{Confine: c, Elevate: elevate, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, &said
}

func TestParseCapabilities(t *testing.T) {
	for text, want := range map[string]string{"none": "none", "all": "all", "chown": "chown", "CAP_CHOWN, dac_read_search,chown": "chown,dac_read_search", "checkpoint_restore": "checkpoint_restore"} {
		var c Confinement
		if err := c.ParseCapabilities(text); err != nil || c.CapabilitiesText() != want {
			t.Errorf("%q is %s, %v, want %s", text, c.CapabilitiesText(), err, want)
		}
	}
	for _, text := range []string{"", "root", "chown,,kill", "none,chown"} {
		if err := new(Confinement).ParseCapabilities(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if len(capabilities) != unix.CAP_LAST_CAP+1 || capabilities[unix.CAP_SYS_PTRACE] != "sys_ptrace" || capabilities[unix.CAP_BPF] != "bpf" {
		t.Errorf("the names are %q", capabilities)
	}
}

// TestCapabilities: a process has none, whatever its user, unless they are asked for.
func TestCapabilities(t *testing.T) {
	of := func(field, status string) (is string) {
		for line := range strings.Lines(status) {
			if text, ok := strings.CutPrefix(line, field+":"); ok {
				is = strings.TrimLeft(strings.TrimSpace(text), "0")
			}
		}
		return is
	}
	for text, want := range map[string]string{"none": "", "chown,kill": "21", "all": "all"} {
		for _, elevate := range []bool{false, true} {
			var c Confinement
			if err := c.ParseCapabilities(text); err != nil {
				t.Fatal(err)
			}
			r, _ := confined(t, c, elevate)
			var s record
			r.Run(t.Context(), shell("cat /proc/self/status"), &s)
			own, err := os.ReadFile("/proc/self/status")
			if err != nil {
				t.Fatal(err)
			}
			for _, set := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"} {
				want := want
				switch {
				case want == "all", set == "CapBnd" && os.Geteuid() != 0: // who has none can take none from others
					want = of(set, string(own))
				case set == "CapInh" || set == "CapAmb" || os.Geteuid() != 0:
					want = ""
				}
				if got := of(set, s.stdout()); got != want {
					t.Errorf("capabilities %s, elevate %v: %s is %q, want %q", text, elevate, set, got, want)
				}
			}
		}
	}
}

// TestApart: nobody but the worker looks into a process that is alone, and no process into one
// outside.
func TestApart(t *testing.T) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	kept := errno == 0 && abi >= landlockRefer
	for _, open := range []bool{false, true} {
		r, said := confined(t, Confinement{Open: open}, false)
		one := record{said: make(chan string, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(ctx, Command{Shell: "echo $$; exec sleep 1000", Env: append(os.Environ(), "WORD=sesame"), Alone: true}, &one)
		}()
		pid := <-one.said
		for range 8 { // whatever thread starts it
			var s, outside record
			r.Run(t.Context(), shell("cat /proc/"+pid+"/environ"), &s)
			if read := s.stdout() != ""; read != (open || !kept) {
				t.Errorf("open %v, Landlock %d: the variables of another process are read: %v", open, abi, read)
			}
			r.Run(t.Context(), shell(fmt.Sprintf("cat /proc/%d/environ", os.Getppid())), &outside)
			if outside.stdout() != "" && !open && kept {
				t.Error("the variables of a process outside are read")
			}
		}
		var own record
		r.Run(t.Context(), Command{Shell: `sh -c 'cat /proc/$PPID/environ'; :`, Env: []string{"WORD=own", "PATH=" + os.Getenv("PATH")}, Alone: true}, &own)
		if !strings.Contains(own.stdout(), "WORD=own\x00") && !strings.Contains(own.stdout(), "WORD=own\uFFFD") {
			t.Errorf("a process cannot look into its own parent: %q", own.stdout())
		}
		if env, err := os.ReadFile("/proc/" + pid + "/environ"); err != nil || !strings.Contains(string(env), "WORD=sesame") {
			t.Errorf("the worker cannot look into its process: %v", err)
		}
		cancel()
		<-ended
		if n := strings.Count(said.String(), "can look into other processes"); n != 0 && kept || n != 1 && !open && !kept {
			t.Errorf("it is said %d times: %s", n, said)
		}
	}
}

// TestHide: a process finds nothing in a folder that is hidden, and this program sees it as before.
func TestHide(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, said := confined(t, Confinement{Hide: []string{dir, filepath.Join(dir, "none")}}, false)
	var s record
	r.Run(t.Context(), shell("cat "+file+"; umount "+dir+" 2>/dev/null; cat "+file), &s)
	gap := strings.Contains(said.String(), "can read the server's folder")
	if hidden := s.stdout() == ""; hidden == gap {
		t.Errorf("it reads %q, and the log says %q", s.stdout(), said)
	}
	if os.Geteuid() == 0 && gap {
		t.Errorf("root cannot hide a folder: %s", said)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "sesame" {
		t.Errorf("this program reads %q, %v", text, err)
	}
}
