//go:build linux

package child

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Only containers whose keeper is gone are left over, and only in its own place that is sure.
func TestLeft(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	mine := (&Container{Name: "01ARZ3NDEKTSV4RRFFQ69G5FAV.7"}).name()
	start, _ := StartOf(os.Getpid())
	task := "millrace.01ARZ3NDEKTSV4RRFFQ69G5FAV.7."
	for name, want := range map[string]string{
		mine: "false true",
		task + keeperPlace() + fmt.Sprintf(".%d.%d", gone.Process.Pid, start): "true true",
		task + keeperPlace() + fmt.Sprintf(".%d.%d", os.Getpid(), start+1):    "true true",
		task + "elsewhere" + fmt.Sprintf(".%d.%d", os.Getpid(), start):        "true false",
		"millrace.mine":                                  "false false",
		task + keeperPlace() + ".x.1":                    "false false",
		"other." + strings.TrimPrefix(mine, "millrace."): "false false",
	} {
		here, sure := left(name)
		if got := fmt.Sprint(here, sure); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestRemoval(t *testing.T) {
	for runtime, want := range map[string]string{"podman": "podman rm --force --ignore --time 0 x", "docker": "docker rm --force x", "nerdctl": "nerdctl rm --force x"} {
		if got := strings.Join(removal(runtime, "x"), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
