package jobfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file. Jobs written by people are far below all of them. They bound the time and
// memory for reading a hostile file.
const (
	// maxSize bounds a file, and each of its documents with expanded aliases, in bytes.
	maxSize = 1 << 20
	// maxDepth bounds the nesting of lists and mappings.
	maxDepth = 64
	// maxName bounds the name of a field, as YAML itself does, in bytes.
	maxName = 1024
	// maxFields bounds the fields of a document, including nested ones: the YAML parser's time
	// grows with the square of their number.
	maxFields = 4000
)

// kind is the kind of a value in terms of JSON.
type kind uint8

const (
	broken kind = iota // a problem that was reported already
	null
	boolean
	number
	text
	list
	mapping
)

type position struct{ line, column int }

// node is a value of a document. Repeated aliases share nodes, so a complete node is never changed.
type node struct {
	kind   kind
	pos    position
	text   string // of a scalar: the source text or, for text, its value
	items  []*node
	fields []field

	size, depth int // including everything below it
}

type field struct {
	name string
	pos  position
	node *node
}

func (n *node) field(name string) (field, bool) {
	i := slices.IndexFunc(n.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return n.fields[i], true
}

// document is the text of one YAML document, and the number of lines before it.
type document struct {
	text string
	line int
}

// clean returns data as text with plain line ends, or reports why it cannot.
func clean(data []byte, r *report) (string, bool) {
	if len(data) > maxSize {
		r.add(position{}, "", "the file has %d bytes, want %d at most", len(data), maxSize)
		return "", false
	}
	s := strings.TrimPrefix(string(data), "\ufeff")
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	pos := position{1, 1}
	for i, c := range s {
		switch {
		case c == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			r.add(pos, "", "this is not UTF-8 text")
			return "", false
		case c < ' ' && c != '\n' && c != '\t', c == 0x7f:
			r.add(pos, "", `the control character %U cannot be in a file; in double quotes it is written "\x%02x"`, c, c)
			return "", false
		case c == '\n':
			pos = position{pos.line + 1, 1}
		default:
			pos.column++
		}
	}
	return s, true
}

// split cuts a file into its documents. A line that begins with "---" or "..." is a marker
// everywhere, so no parser is needed. The YAML parser itself drops the documents after an empty
// one.
func split(s string) []document {
	var docs []document
	var b strings.Builder
	start, line := 0, 0
	for l := range strings.Lines(s) {
		if marker := strings.HasPrefix(l, "---") || strings.HasPrefix(l, "..."); marker && (len(l) == 3 || strings.ContainsRune(" \t\n", rune(l[3]))) {
			docs = append(docs, document{b.String(), start})
			b.Reset()
			start = line
			l = "   " + l[3:] // keeps the columns of the rest of the line
		}
		b.WriteString(l)
		line++
	}
	return append(docs, document{b.String(), start})
}

// composer makes the tree of one document.
type composer struct {
	*report
	line    int // lines before the document
	anchors map[string]*node
}

// compose returns the root of a document, or nil if the document is empty. Unreadable parts are
// reported and become broken nodes.
func compose(doc document, r *report) *node {
	c := composer{report: r, line: doc.line, anchors: map[string]*node{}}
	body, err := c.parse(doc.text)
	if err != nil {
		return &node{}
	}
	if body == nil {
		return nil
	}
	return c.node(body, "")
}

var errReported = errors.New("reported")

// parse returns the syntax tree of a document. It does not trust the YAML parser with hostile text:
// it refuses text that would make the parser recurse without bound or take very long, and reports a
// panic as a problem of the file.
func (c *composer) parse(s string) (body ast.Node, err error) {
	defer func() {
		if v := recover(); v != nil {
			c.add(position{c.line + 1, 1}, "", "the YAML of this document cannot be read (%v)", v)
			err = errReported
		}
	}()
	tokens := lexer.Tokenize(s)
	if err := c.screen(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // duplicates are reported with the rest
	if err != nil {
		pos, message := position{c.line + 1, 1}, err.Error()
		var syntax interface {
			GetMessage() string
			GetToken() *token.Token
		}
		if errors.As(err, &syntax) {
			pos, message = c.pos(syntax.GetToken()), syntax.GetMessage()
		}
		c.add(pos, "", "%s", explained(message))
		return nil, errReported
	}
	switch len(file.Docs) {
	case 0:
		return nil, nil
	case 1:
		return file.Docs[0].Body, nil
	}
	c.add(c.pos(file.Docs[1].GetToken()), "", "a document begins in the middle of another: write --- at the beginning of a line")
	return nil, errReported
}

// screen refuses a document that is too large for the parser, or that the parser would silently
// misread.
func (c *composer) screen(tokens token.Tokens) error {
	refuse := func(t *token.Token, format string, args ...any) error {
		c.add(c.pos(t), "", format, args...)
		return errReported
	}
	tokens = slices.DeleteFunc(slices.Clone(tokens), func(t *token.Token) bool { return t.Type == token.CommentType })
	end := &token.Token{Position: &token.Position{}}
	at := func(i int) *token.Token {
		if i < 0 || i >= len(tokens) {
			return end
		}
		return tokens[i]
	}
	var open []token.Type // brackets and braces
	var dashes, fields, line int
	for i, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		before, after := at(i-1), at(i+1)
		inBraces := len(open) > 0 && open[len(open)-1] == token.MappingStartType
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			open = append(open, t.Type)
		case token.SequenceEndType, token.MappingEndType:
			open = open[:max(len(open)-1, 0)]
		case token.SequenceEntryType:
			dashes++
			// Without a value, the parser would take the next field as the item's value.
			if after.Position.Line != line && after.Position.Column <= t.Position.Column {
				return refuse(t, "the list item is empty: write ~ for nothing")
			}
		case token.CollectEntryType:
			if inBraces {
				fields++
			}
		case token.MappingValueType:
			if !inBraces {
				fields++
			}
			// In brackets within braces, 80:80 would become a mapping.
			if len(open) > 0 && plain(before) && scalar(after) && after.Position.Line == line && after.Position.Column == t.Position.Column+1 {
				return refuse(t, "write a space after this colon, or put the text in quotes")
			}
		case token.StringType:
			// The lexer drops tabs between words.
			if before.Type != token.LiteralType && before.Type != token.FoldedType && innerTab().MatchString(t.Origin) {
				return refuse(t, "text with a tab in it has to be in quotes")
			}
		case token.LiteralType, token.FoldedType:
			if strings.TrimSpace(t.Origin) != t.Value {
				return refuse(t, "after %s the text begins on the next line", t.Value)
			}
		case token.TagType:
			return refuse(t, "the YAML tag %s is not supported: put text that begins with ! in quotes", excerpt(t.Value))
		case token.MappingKeyType:
			return refuse(t, "the YAML key indicator ? is not supported: put a key that begins with it in quotes")
		case token.DirectiveType:
			return refuse(t, "YAML directives are not supported: put text that begins with %% in quotes")
		case token.AliasType:
			// An alias is a name by itself; the parser takes the rest of a text for something else.
			end := at(i + 2)
			alone := end.Position.Line != line || slices.Contains([]token.Type{token.CollectEntryType, token.SequenceEndType, token.MappingEndType, token.MappingValueType}, end.Type)
			if after.Position.Line != line || after.Position.Column != t.Position.Column+1 || !alone || strings.Trim(after.Value, anchorSigns) != "" {
				return refuse(t, inQuotes, "*", "an alias")
			}
		case token.AnchorType:
			if after.Position.Line != line || after.Position.Column != t.Position.Column+1 || after.Type == token.AnchorType {
				return refuse(t, inQuotes, "&", "an anchor")
			}
			if at(i-2).Type == token.AnchorType {
				return refuse(t, "a value has two YAML anchors")
			}
		}
		if len(open) > maxDepth || dashes > maxDepth {
			return refuse(t, "lists and mappings nest deeper than %d levels", maxDepth)
		}
		if fields > maxFields {
			return refuse(t, "the document has more than %d fields", maxFields)
		}
	}
	return nil
}

// anchorSigns are what the name of an anchor may have.
const anchorSigns = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// inQuotes is what to do about text that begins with a sign of YAML.
const inQuotes = "put it in quotes: text that begins with %s is %s in YAML"

// explained says in plain words what the parser of YAML finds wrong.
func explained(message string) string {
	for _, is := range []struct{ begins, means string }{
		{"'@'", fmt.Sprintf(inQuotes, "@", "a reserved sign")}, {"'`'", fmt.Sprintf(inQuotes, "`", "a reserved sign")},
		{"undefined alias", fmt.Sprintf(inQuotes, "*", "an alias")}, {"undefined anchor", fmt.Sprintf(inQuotes, "&", "an anchor")},
		{"found invalid tag", fmt.Sprintf(inQuotes, "!", "a tag")}, {"invalid header option", fmt.Sprintf(inQuotes, "| or >", "a block, which begins on the next line")},
		{"could not find '['", "this ] has no [ before it: put text that begins with ] in quotes"},
		{"could not find flow map", "a mapping that begins with { is not closed: write }, or put the text in quotes"},
		{"sequence end token", "a list that begins with [ is not closed: write ], or put the text in quotes"},
		{"',' or ']' must", "a list that begins with [ goes on here: write , or ] before it, or put the text in quotes"},
		{"',' or '}' must", "a mapping that begins with { goes on here: write , or } before it, or put the text in quotes"},
		{"could not find end character of single", "the quote ' is not closed"}, {"could not find end character of double", "the quote \" is not closed"},
		{"found unknown escape", "this backslash means nothing in double quotes: write two, or use single quotes"},
		{"mapping value is not allowed", "a colon before a space ends the name of a field: put text with one in quotes, or correct the indentation"},
		{"found character '\t'", "a tab begins this line: indent with spaces"},
		{"block sequence entries", "a list begins on a line of its own: put text that begins with - in quotes"},
		{"unexpected scalar", "put it in quotes: it begins with a sign of YAML"},
		{"non-map value", "this is no field: want a name and a colon, or more indentation"},
		{"value is not allowed", "something follows a value that has ended: put the whole text in quotes, or correct the indentation"},
	} {
		if strings.HasPrefix(message, is.begins) {
			return is.means
		}
	}
	return "this is not YAML: check quotes, brackets and indentation (" + message + ")"
}

var innerTab = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\S *\t[ \t]*\S`) })

// scalar tells whether a token alone is a value.
func scalar(t *token.Token) bool {
	return plain(t) || t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
}

// plain tells whether a token alone is an unquoted value.
func plain(t *token.Token) bool {
	switch t.Type {
	case token.StringType, token.NullType, token.BoolType, token.InfinityType, token.NanType,
		token.IntegerType, token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType, token.FloatType:
		return true
	}
	return false
}

func (c *composer) pos(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{c.line + 1, 1}
	}
	return position{c.line + t.Position.Line, t.Position.Column}
}

// node turns a syntax tree into a tree of values.
func (c *composer) node(a ast.Node, path string) *node {
	n := &node{pos: c.pos(a.GetToken())}
	switch a := a.(type) {
	case *ast.NullNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind = plainKind(a.GetToken().Value)
		if n.kind != null {
			n.text = a.GetToken().Value
		}
	case *ast.StringNode:
		n.kind, n.text = text, a.Value
		if t := a.Token.Type; t != token.SingleQuoteType && t != token.DoubleQuoteType {
			n.kind = plainKind(n.text)
		}
	case *ast.LiteralNode:
		n.kind, n.text = text, a.Value.Value
	case *ast.SequenceNode:
		n.kind = list
		for i, item := range a.Values {
			n.items = append(n.items, c.node(item, fmt.Sprintf("%s[%d]", path, i)))
		}
	case *ast.MappingNode:
		n.kind = mapping
		c.fields(n, a.Values, path)
	case *ast.MappingValueNode:
		n.kind = mapping
		c.fields(n, []*ast.MappingValueNode{a}, path)
	case *ast.AnchorNode:
		// Known only from here on, so that a value cannot contain itself.
		n = c.node(a.Value, path)
		c.anchors[a.Name.GetToken().Value] = n
		return n
	case *ast.AliasNode:
		name := a.Value.GetToken().Value
		if n, ok := c.anchors[name]; ok {
			return n
		}
		c.add(n.pos, path, "%sno value before this one has the YAML anchor &%s: put text that begins with * in quotes", prefix(path), excerpt(name))
	default:
		c.add(n.pos, path, "%sthis kind of YAML value is not supported", prefix(path))
	}
	return c.measure(n, path)
}

// fields adds the fields to a mapping; merged ones come last.
func (c *composer) fields(n *node, values []*ast.MappingValueNode, path string) {
	index := make(map[string]int, len(values))
	var merged []*node
	for i, v := range values {
		pos := c.pos(v.Key.GetToken())
		if i == 0 && pos.line <= n.pos.line && pos.column < n.pos.column {
			n.pos = pos // a mapping without braces begins with its first key
		}
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			merged = append(merged, c.merged(v, path)...)
			continue
		}
		name, ok := keyText(v.Key)
		if !ok {
			c.add(pos, path, "%sthe name of a field has to be plain text", prefix(path))
			continue
		}
		if len(name) > maxName {
			c.add(pos, path, "%sthe field `%s` has a name of %d bytes, want %d at most", prefix(path), excerpt(name), len(name), maxName)
			continue
		}
		at := join(path, name)
		if first, double := index[name]; double {
			c.add(pos, at, "field `%s` is set twice, first on line %d", excerpt(at), n.fields[first].pos.line)
			continue
		}
		index[name] = len(n.fields)
		n.fields = append(n.fields, field{name, pos, c.node(v.Value, at)})
	}
	for _, m := range merged {
		for _, f := range m.fields {
			if _, own := index[f.name]; !own {
				index[f.name] = len(n.fields)
				n.fields = append(n.fields, f)
			}
		}
	}
}

// merged returns the mappings named by a merge key.
func (c *composer) merged(v *ast.MappingValueNode, path string) []*node {
	n := c.node(v.Value, path)
	from := []*node{n}
	if n.kind == list {
		from = n.items
	}
	for _, m := range from {
		if m.kind != mapping && m.kind != broken {
			c.add(c.pos(v.Key.GetToken()), path, "%s<< merges mappings only, got %s", prefix(path), describe(m))
			return nil
		}
	}
	return from
}

func keyText(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.NullNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return k.GetToken().Value, true
	}
	return "", false
}

// measure completes a node, or breaks it if aliases made it too large.
func (c *composer) measure(n *node, path string) *node {
	n.size = 1 + len(n.text)
	for _, i := range n.items {
		n.size, n.depth = n.size+i.size, max(n.depth, i.depth+1)
	}
	for _, f := range n.fields {
		n.size, n.depth = n.size+len(f.name)+f.node.size, max(n.depth, f.node.depth+1)
	}
	switch {
	case n.size > maxSize:
		c.add(n.pos, path, "%swith its aliases written out this is larger than %d bytes", prefix(path), maxSize)
	case n.depth > maxDepth:
		c.add(n.pos, path, "%slists and mappings nest deeper than %d levels", prefix(path), maxDepth)
	default:
		return n
	}
	return &node{pos: n.pos}
}

// numeral matches the numbers of YAML 1.2 (its core schema).
var numeral = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
})

// plainKind is the kind of an unquoted scalar by YAML 1.2: "yes", "on" and dates are text.
func plainKind(s string) kind {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return null
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return boolean
	}
	if numeral().MatchString(s) {
		return number
	}
	return text
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// prefix is the path as the beginning of a message.
func prefix(path string) string {
	if path == "" {
		return ""
	}
	return excerpt(path) + ": "
}

// excerpt shortens text that a message quotes from a file.
func excerpt(s string) string {
	const most = 60
	for i, n := 0, 0; i < len(s); n++ {
		if n == most {
			return s[:i] + "…"
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s
}

// describe names a value for messages.
func describe(n *node) string {
	switch n.kind {
	case null:
		return "nothing"
	case boolean:
		return n.text
	case number:
		return "the number " + excerpt(n.text)
	case text:
		return fmt.Sprintf("text %q", excerpt(n.text))
	case list:
		return "a list"
	case mapping:
		return "a mapping"
	}
	return "something else"
}
