package child

import "testing"

func TestWithLastLine(t *testing.T) {
	for _, c := range []struct{ message, last, want string }{
		{"sh exited with code 7: see its last output", "KeyError: 'x'", "sh exited with code 7: KeyError: 'x'"},
		{"sh exited with code 7: see its last output", "", "sh exited with code 7: it printed nothing"},
		{"sh ended by SIGTERM: not by Millrace; see its last output", "bye", "sh ended by SIGTERM: not by Millrace; its last line: bye"},
		{"sh ended by SIGTERM: not by Millrace; see its last output", "", "sh ended by SIGTERM: not by Millrace; see its last output"},
		{"sh exited with code 127: correct its name", "sh: crawl: not found", "sh exited with code 127: correct its name; its last line: sh: crawl: not found"},
		{"sh exited with code 127: correct its name", "", "sh exited with code 127: correct its name"},
	} {
		if got := WithLastLine(c.message, c.last); got != c.want {
			t.Errorf("%q with %q is %q, want %q", c.message, c.last, got, c.want)
		}
	}
}
