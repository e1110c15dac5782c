package millrace

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

var (
	declared = regexp.MustCompile(`(?m)^export (?:function|class|const) (\w+)`)
	method   = regexp.MustCompile(`(?m)^  (\w+)(?:<.*>)? \(`)
)

// TypeScript's declarations name all that the libraries for Node have, and nothing else.
func TestDeclarations(t *testing.T) {
	for name, of := range map[string]string{"millrace": "Object.keys(m)", "millrace-http": "[...Object.keys(m), ...Object.getOwnPropertyNames(m.Client.prototype)]"} {
		text, err := os.ReadFile("../node/" + name + ".d.ts")
		if err != nil {
			t.Fatal(err)
		}
		var says, has []string
		for _, found := range append(declared.FindAllStringSubmatch(string(text), -1), method.FindAllStringSubmatch(string(text), -1)...) {
			says = append(says, found[1])
		}
		if _, err := exec.LookPath("node"); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Logf("NOT TESTED: %v", err)
			return
		}
		printed, err := exec.CommandContext(t.Context(), "node", "-e", "const m = require('../node/"+name+"'); console.log(JSON.stringify("+of+"))").Output()
		if err == nil {
			err = json.Unmarshal(printed, &has)
		}
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(says)
		slices.Sort(has)
		if !slices.Equal(says, has) {
			t.Errorf("%s.d.ts declares %q\nthe library has %q", name, says, has)
		}
	}
}
