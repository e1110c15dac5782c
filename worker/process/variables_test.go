package process

import (
	"slices"
	"testing"
)

func TestInterpreter(t *testing.T) {
	for text, want := range map[string][]string{
		"#!/bin/bash\na=(1 2)": {"/bin/bash"}, "#! /usr/bin/env python3\nx": {"/usr/bin/env", "python3"}, "#!/bin/sh -e -u\n": {"/bin/sh", "-e -u"}, "#!/bin/sh": {"/bin/sh"},
		"#!\necho": nil, "echo\n#!/bin/bash": nil, "": nil, " #!/bin/bash": nil,
	} {
		if got := interpreter(text); !slices.Equal(got, want) {
			t.Errorf("%q runs with %q, want %q", text, got, want)
		}
	}
}
