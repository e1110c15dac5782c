package logtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A path that names no field of its fact would never be changed, and no test would miss it.
func TestDecisionsLieInFieldsThatAreThere(t *testing.T) {
	t.Parallel()
	for of, paths := range decisive {
		samples, err := filepath.Glob("../testdata/corpus/fact/v*/" + string(of) + ".*json")
		if err != nil || len(samples) == 0 {
			t.Errorf("%s: %d samples, error %v", of, len(samples), err)
		}
		for _, path := range paths {
			there := strings.HasSuffix(path, swapped) // which needs two
			for _, sample := range samples {
				text, err := os.ReadFile(sample)
				var fields map[string]any
				if err == nil {
					err = json.Unmarshal(text, &fields)
				}
				if err != nil {
					t.Fatal(err)
				}
				there = alter(fields, strings.Split(path, ".")) || there
			}
			if !there {
				t.Errorf("%s has no field %s", of, path)
			}
		}
	}
}
