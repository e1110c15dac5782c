package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"millrace/internal/cli/term"
	"millrace/task/value"
)

// written is a value as it stands in the settings file.
type written struct {
	text string
	line int
}

// readFile reads the settings from a YAML file; "" is no file. It refuses an unknown name with its
// line, for a misspelt one would have no effect.
func readFile(path string) (map[string]written, error) {
	if path == "" {
		return nil, nil
	}
	refuse := func(line int, err error) error {
		at := path
		if line > 0 {
			at = fmt.Sprintf("%s:%d", path, line)
		}
		return &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("%s: %w", at, err), Hint: term.Hint("`millrace config --help` lists the settings")}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, refuse(0, err)
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, refuse(0, errors.New(strings.TrimSpace(strings.SplitN(err.Error(), "\n", 2)[0])))
	}
	found := map[string]written{}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue // empty, or only comments
		}
		if _, ok := doc.Body.(*ast.CommentGroupNode); ok {
			continue
		}
		m, ok := doc.Body.(*ast.MappingNode)
		if !ok {
			return nil, refuse(doc.Body.GetToken().Position.Line, errors.New("want lines of the form `name: value`"))
		}
		for _, entry := range m.Values {
			name, line := entry.Key.String(), entry.Key.GetToken().Position.Line
			if err := known(name); err != nil {
				return nil, refuse(line, err)
			}
			value, ok := entry.Value.(ast.ScalarNode)
			if !ok || value.GetValue() == nil {
				return nil, refuse(line, fmt.Errorf("%s: want one value", name))
			}
			found[name] = written{text: fmt.Sprint(value.GetValue()), line: line}
		}
	}
	return found, nil
}

func known(name string) error {
	names := []string{"profile"}
	for _, d := range All {
		names = append(names, d.Name)
	}
	for _, n := range names {
		if n == name {
			return nil
		}
	}
	if meant := value.Word(name, names); meant != "" {
		return fmt.Errorf("unknown setting %q; did you mean %q?", name, meant)
	}
	return fmt.Errorf("unknown setting %q; there are %s", name, strings.Join(names, ", "))
}
