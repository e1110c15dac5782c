package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"millrace/internal/cli/settings"
	"millrace/task/job"
)

// The compose file is YAML with services that this program can run, and gives a worker the time that
// it needs to end.
func TestComposeFile(t *testing.T) {
	text, err := os.ReadFile("../../examples/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
			Volumes     []string
			Depends     []string `yaml:"depends_on"`
			Stop        string   `yaml:"stop_grace_period"`
		}
		Volumes map[string]struct{}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for name, s := range file.Services {
		if s.Image == "" || len(s.Volumes) != 1 || len(s.Command) < 2 {
			t.Fatalf("%s is %+v", name, s)
		}
		volume, _, _ := strings.Cut(s.Volumes[0], ":")
		if _, named := file.Volumes[volume]; !named || volume != name {
			t.Errorf("%s keeps its data in %s", name, volume)
		}
		if s.Command[0] != "millrace" {
			continue
		}
		counts[s.Command[1]]++
		root := testRoot()
		c, rest, err := root.Find(s.Command[1:])
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if err != nil || c == root {
			t.Errorf("%s: %v", name, err)
		}
		for _, service := range s.Depends {
			if _, there := file.Services[service]; !there {
				t.Errorf("%s depends on %s", name, service)
			}
		}
		stop, err := time.ParseDuration(s.Stop)
		needs := 5 * time.Second
		if s.Command[1] == "worker" {
			values, _, err := settings.Load(os.DevNull, nil, s.Environment["MILLRACE_PROFILE"])
			if err != nil {
				t.Fatal(err)
			}
			needs = values.Grace + job.DefaultStop + 15*time.Second
		}
		if err != nil || stop < needs {
			t.Errorf("%s is killed after %s (%v), and may take %v", name, s.Stop, err, needs)
		}
	}
	if counts["server"] != 2 || counts["worker"] != 2 {
		t.Errorf("it has %v", counts)
	}
}
