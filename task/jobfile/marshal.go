package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"millrace/task/job"
	"millrace/task/value"
)

// Marshal returns a job as a YAML file. [Parse] reads an equal job from it, with numbers in
// parameters equal digit by digit. The error is that of Parse if a file cannot express the job.
func Marshal(is job.Job) ([]byte, error) {
	return marshal("job", is.Name, is, func(text []byte) (any, error) {
		back, err := parse("", text, (*job.Job).ValidateStored, nil) // an early version may have stored it
		if err != nil {
			return nil, err
		}
		return back[0], nil
	})
}

// marshal returns a definition as a YAML file, if parse reads an equal one from it: a shown
// definition gets edited and applied again, so one that differs would do harm.
func marshal(kind, name string, is any, parse func([]byte) (any, error)) ([]byte, error) {
	encoded, err := json.Marshal(is)
	if err != nil {
		return nil, fmt.Errorf("write %s %s: %w", kind, name, err)
	}
	var b bytes.Buffer
	tree := jsonTree(encoded)
	for i := range tree.fields {
		if tree.fields[i].name == "timetable" {
			tree.fields[i].name = "schedule" // as most people write it
		}
	}
	writeFields(&b, tree, "")
	back, err := parse(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("write %s %s: %w", kind, name, err)
	}
	again, err := json.Marshal(back)
	if err != nil || !bytes.Equal(canonical(again), canonical(encoded)) {
		return nil, fmt.Errorf("write %s %s: its YAML form does not read back as the same %s", kind, name, kind)
	}
	return b.Bytes(), nil
}

// Draft returns the text of a file with the values of a struct, whether they are valid or not: [Parse]
// says what is wrong with them.
func Draft(of any) string {
	var b bytes.Buffer
	writeFields(&b, jsonTree(value.Must(json.Marshal(of))), "") // of texts, lists and mappings
	return b.String()
}

// jsonTree returns valid JSON as a tree without positions. Of fields with the same name the last
// one counts, as in encoding/json.
func jsonTree(data []byte) *node {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return jsonNode(d)
}

func jsonNode(d *json.Decoder) *node {
	t, _ := d.Token() // encoding/json wrote the data
	switch t := t.(type) {
	case json.Delim:
		n := &node{kind: list}
		if t == '{' {
			n.kind = mapping
		}
		for d.More() {
			if n.kind == list {
				n.items = append(n.items, jsonNode(d))
				continue
			}
			k, _ := d.Token()
			name, _ := k.(string)
			f := field{name: name, node: jsonNode(d)}
			n.fields = append(slices.DeleteFunc(n.fields, func(g field) bool { return g.name == name }), f)
		}
		_, _ = d.Token() // the closing bracket of valid JSON
		return n
	case string:
		return &node{kind: text, text: t}
	case json.Number:
		return &node{kind: number, text: t.String()}
	case bool:
		return &node{kind: boolean, text: fmt.Sprint(t)}
	}
	return &node{kind: null, text: "null"}
}

// canonical returns JSON in a single spelling, for comparison.
func canonical(data []byte) []byte {
	return new(reader).appendJSON(nil, entry{node: jsonTree(data)})
}

// writeFields writes a mapping in block style.
func writeFields(b *bytes.Buffer, n *node, indent string) {
	for _, f := range n.fields {
		b.WriteString(indent + yamlName(f.name) + ":")
		writeValue(b, f.node, indent)
	}
}

// writeValue writes the value behind a field's colon, to the end of the line or block.
func writeValue(b *bytes.Buffer, n *node, indent string) {
	switch {
	case n.kind == mapping && len(n.fields) > 0:
		b.WriteByte('\n')
		writeFields(b, n, indent+"  ")
	case n.kind == list && len(n.items) > 0:
		b.WriteByte('\n')
		for _, i := range n.items {
			if i.kind == mapping && len(i.fields) > 0 {
				var item bytes.Buffer
				writeFields(&item, i, indent+"    ")
				b.WriteString(indent + "  - " + strings.TrimPrefix(item.String(), indent+"    "))
				continue
			}
			b.WriteString(indent + "  - " + yamlFlow(i) + "\n")
		}
	case n.kind == text && blockText(n.text):
		chomp := ""
		if !strings.HasSuffix(n.text, "\n") {
			chomp = "-"
		}
		b.WriteString(" |" + chomp + "\n")
		for l := range strings.Lines(n.text) {
			if l != "\n" {
				b.WriteString(indent + "  ")
			}
			b.WriteString(strings.TrimSuffix(l, "\n") + "\n")
		}
	default:
		b.WriteString(" " + yamlFlow(n) + "\n")
	}
}

// yamlFlow writes a value on one line. At the top level, text may be unquoted.
func yamlFlow(n *node) string {
	if n.kind == text && (plainText().MatchString(n.text) || plainTime().MatchString(n.text)) && plainKind(n.text) == text && !oldBoolean().MatchString(n.text) {
		return n.text
	}
	return yamlQuoted(n)
}

// yamlQuoted writes a value on one line with all text in quotes: JSON, except for non-printing
// characters.
func yamlQuoted(n *node) string {
	var parts []string
	switch n.kind {
	case text:
		return quote(n.text)
	case list:
		for _, i := range n.items {
			parts = append(parts, yamlQuoted(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case mapping:
		for _, f := range n.fields {
			parts = append(parts, quote(f.name)+": "+yamlQuoted(f.node))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return n.text
}

var (
	// plainText is text that every parser reads as itself without quotes: less than YAML allows.
	// Colons are for URLs and must not end a word. Durations begin with a digit, so they have an
	// expression of their own.
	plainText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(\./)?[A-Za-z_/]([A-Za-z0-9_/.,;@%+=*?!$|&<>()'"~^-]|:[A-Za-z0-9_/.]| [A-Za-z0-9_/.,;@%+=*?!$|&<>()'"~^-])*$`)
	})
	plainTime = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|µs|ms|s|m|h))+$`) })
	plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`) })
	// oldBoolean matches words that YAML 1.1 reads as true and false.
	oldBoolean = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?i:y|n|yes|no|on|off)$`) })
)

func yamlName(s string) string {
	if plainName().MatchString(s) && plainKind(s) == text && (s == "on" || !oldBoolean().MatchString(s)) {
		return s
	}
	return quote(s)
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// blockText tells whether text of several lines can be written unchanged below "|".
func blockText(s string) bool {
	if !strings.Contains(strings.TrimSuffix(s, "\n"), "\n") || strings.ContainsAny(s[:1], " \t\n") || strings.HasSuffix(s, "\n\n") {
		return false
	}
	for l := range strings.Lines(s) {
		if l = strings.TrimSuffix(l, "\n"); l != strings.TrimRight(l, " \t") {
			return false
		}
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return c != '\n' && c != '\t' && !unicode.IsPrint(c) })
}
