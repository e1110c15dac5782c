package testkit

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// in is a run of tests.
type in func() int

func (r in) Run() int { return r() }

func TestThrifty(t *testing.T) {
	mine := t.TempDir()
	t.Setenv("TMPDIR", mine)
	if code := Thrifty(in(func() int {
		if os.TempDir() != mine {
			t.Errorf("TMPDIR names %s, and the tests use %s", mine, os.TempDir())
		}
		return 7
	})).Run(); code != 7 {
		t.Errorf("the tests ended with %d", code)
	}
	t.Setenv("TMPDIR", "")
	var used string
	Thrifty(in(func() int {
		if used = os.TempDir(); used != "/tmp" {
			if err := os.WriteFile(filepath.Join(used, "x"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
		return 0
	})).Run()
	if _, err := os.Stat(used); used != "/tmp" && err == nil {
		t.Errorf("%s is left", used)
	}
}

func TestAbandonedIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", "")
	Thrifty(in(func() int {
		there := os.TempDir()
		if there == "/tmp" {
			return 0 // the machine has no such memory
		}
		// No process has this number.
		left := strings.Replace(there, strconv.Itoa(os.Getpid()), "1073741824", 1)
		if err := os.Mkdir(left, 0o700); err != nil {
			t.Error(err)
		}
		Thrifty(in(func() int { return 0 })).Run() // which does nothing below its own directory
		t.Setenv("TMPDIR", "")
		Thrifty(in(func() int { return 0 })).Run()
		if _, err := os.Stat(left); err == nil {
			t.Errorf("%s is left", left)
		}
		if _, err := os.Stat(there); err != nil {
			t.Error("what is in use was removed")
		}
		return 0
	})).Run()
}

func TestPoll(t *testing.T) {
	t.Parallel()
	looks := 0
	if !Poll(Patience, func() bool { looks++; return looks > 3 }) || looks != 4 {
		t.Errorf("%d looks", looks)
	}
	if Poll(10*time.Millisecond, func() bool { return false }) {
		t.Error("what is not so came to pass")
	}
}
