package answers

import (
	"fmt"
	"testing"

	"millrace/task/output"
)

// The last lines are those at the end, from however many batches.
func TestLastLines(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "[e]", 2: "[d e]", 3: "[c][d e]", 4: "[b c][d e]", 5: "[a b c][d e]", 9: "[a b c][d e]"} {
		said := ""
		for _, b := range lastLines([]batch[output.Lines]{{Of: output.Lines{Lines: []output.Line{{Text: "a"}, {Text: "b"}, {Text: "c"}}}}, {}, {Of: output.Lines{Lines: []output.Line{{Text: "d"}, {Text: "e"}}}}}, n) {
			var texts []string
			for _, l := range b.Of.Lines {
				texts = append(texts, l.Text)
			}
			if len(texts) > 0 {
				said += fmt.Sprint(texts)
			}
		}
		if said != want {
			t.Errorf("the last %d lines are %s, want %s", n, said, want)
		}
	}
}
