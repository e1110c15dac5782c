package job

import (
	"strings"
	"testing"
)

func TestValidateOnRestart(t *testing.T) {
	run := &Run{Shell: "x"}
	files := func(mode string) *Files {
		return &Files{Bundle: "b@9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Mode: mode}
	}
	for name, c := range map[string]struct {
		spec Spec
		want string // part of the error; "" for none
	}{
		"adopt":             {Spec{Run: run, OnRestart: RestartAdopt}, ""},
		"stop":              {Spec{Handler: "h", OnRestart: RestartStop, OnDisconnect: DisconnectContinue}, ""},
		"unknown":           {Spec{Run: run, OnRestart: "go_on"}, "want stop or adopt"},
		"a handler":         {Spec{Handler: "h", OnRestart: RestartAdopt}, "for commands"},
		"without an end":    {Spec{Run: run, OnRestart: RestartAdopt, OnDisconnect: DisconnectContinue}, "choose one"},
		"shared files":      {Spec{Run: run, OnRestart: RestartAdopt, Files: files(FilesShared)}, "copy or link"},
		"files of its own":  {Spec{Run: run, OnRestart: RestartAdopt, Files: files(FilesLink)}, ""},
		"files, as default": {Spec{Run: run, OnRestart: RestartAdopt, Files: files("")}, ""},
	} {
		err := c.spec.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
