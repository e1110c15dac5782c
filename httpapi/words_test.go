package httpapi

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var writeWords = flag.Bool("words", false, "write words.json from the docstrings")

// The document's descriptions are the docstrings of the types. Each field has one: its own, or that
// of a field above it in the same block which names it.
func TestWords(t *testing.T) {
	t.Parallel()
	sources := sources{packages: map[string]map[string]*ast.StructType{}, docs: map[string]map[string]string{}}
	all := map[string]map[string]string{}
	for _, is := range described() {
		said := sources.of(t, is)
		if said[""] == "" {
			t.Errorf("%s has no docstring", is)
		}
		for _, f := range fieldsOf(is) {
			if f.owner == is && said[f.name] == "" {
				t.Errorf("%s.%s has no docstring", is, f.name)
			}
		}
		all[wordsKey(is)] = said
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *writeWords {
		if err := os.WriteFile("words.json", text, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != string(wordsText) {
		t.Error("words.json is not what the docstrings say: go test ./httpapi -run TestWords -words")
	}
}

// described returns the structs in the document, and those embedded in them.
func described() (all []reflect.Type) {
	doc := document("0.0.0", operations())
	schemas := doc.Components.Schemas
	seen := map[reflect.Type]bool{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		if seen[t] || t.Kind() != reflect.Struct {
			return
		}
		seen[t] = true
		all = append(all, t)
		for _, f := range fieldsOf(t) {
			add(f.owner)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schemas.Map())) {
		if t := schemas.TypeFromRef("#/components/schemas/" + name); t != nil {
			add(t)
		}
	}
	for _, o := range operations() {
		add(o.endpoint.Request)
	}
	return all
}

// sources are the structs of packages and the docstrings of these, by package and name.
type sources struct {
	packages map[string]map[string]*ast.StructType
	docs     map[string]map[string]string
}

// of returns the docstrings of a struct and its fields.
func (s *sources) of(t *testing.T, is reflect.Type) map[string]string {
	t.Helper()
	if s.packages[is.PkgPath()] == nil {
		s.read(t, is.PkgPath())
	}
	name, _, _ := strings.Cut(is.Name(), "[")
	node := s.packages[is.PkgPath()][name]
	if node == nil {
		t.Errorf("%s is no struct of the package's source", is)
		return nil
	}
	names := namesIn(node)
	said := map[string]string{"": plainWords(s.docs[is.PkgPath()][name], nil)}
	above := ""
	var block token.Pos
	for _, f := range node.Fields.List {
		text := strings.TrimSpace(f.Doc.Text() + " " + f.Comment.Text())
		_ = block
		for _, ident := range f.Names {
			about := text
			if about == "" && regexp.MustCompile(`\b`+ident.Name+`\b`).MatchString(above) {
				about = above
			}
			if json := names[ident.Name]; json != "" && about != "" {
				said[json] = plainWords(about, names)
			}
		}
		if text != "" {
			above = text
		}
	}
	return said
}

// read parses a package of this module.
func (s *sources) read(t *testing.T, path string) {
	t.Helper()
	s.packages[path], s.docs[path] = map[string]*ast.StructType{}, map[string]string{}
	files, err := filepath.Glob(filepath.Join("..", strings.TrimPrefix(path, "millrace/"), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			of, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range of.Specs {
				is, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if node, ok := is.Type.(*ast.StructType); ok {
					s.packages[path][is.Name.Name] = node
					if s.docs[path][is.Name.Name] = is.Doc.Text(); is.Doc == nil {
						s.docs[path][is.Name.Name] = of.Doc.Text()
					}
				}
			}
		}
	}
}

// namesIn returns the names in JSON of a struct's fields, by their names in Go.
func namesIn(node *ast.StructType) map[string]string {
	names := map[string]string{}
	for _, f := range node.Fields.List {
		if f.Tag == nil {
			continue
		}
		json, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		for _, ident := range f.Names {
			if json != "-" {
				names[ident.Name] = json
			}
		}
	}
	return names
}

var (
	linkIn = regexp.MustCompile(`\[\*?([\w.]+)\]`)
	wordIn = regexp.MustCompile(`\b[A-Z]\w*\b`)
	// prose follows a word that begins a sentence and is no name of a field.
	prose = regexp.MustCompile(`^(:| (the|a|an|most|least|once|all|each|of|it|its|this|that|those|these|none|every|them|now|some|any|one|other|no|\d+)\b)`)
)

// plainWords turns a docstring into a description: in one line, with the names that fields have in
// JSON, and without links.
func plainWords(text string, names map[string]string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = linkIn.ReplaceAllStringFunc(text, func(link string) string {
		path := strings.Split(strings.Trim(link, "[]*"), ".")
		return path[len(path)-1]
	})
	var b strings.Builder
	last := 0
	for _, at := range wordIn.FindAllStringIndex(text, -1) {
		json, begins := names[text[at[0]:at[1]]], at[0] == 0 || strings.HasSuffix(text[:at[0]], ". ")
		if json == "" || begins && prose.MatchString(text[at[1]:]) {
			continue
		}
		b.WriteString(text[last:at[0]] + "`" + json + "`")
		last = at[1]
	}
	return b.String() + text[last:]
}
