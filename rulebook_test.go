package holdfast_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// SAFETY.md is the rulebook: the only place that says what S<number> means. A test
// carries a rule when its name has the number (TestS12_...), when its doc comment cites
// it, or when a string in it begins with it, as the names of cases do ("S12: ...").
const rulebookName = "SAFETY.md"

var (
	rulePattern      = regexp.MustCompile(`^### S([1-9][0-9]{0,2}) \S`)
	proofPattern     = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+)`")
	citationPattern  = regexp.MustCompile(`\bS([1-9][0-9]{0,2})\b`)
	oldPattern       = regexp.MustCompile(`\b[ICR][1-9][0-9]?\b`)
	oldStartPattern  = regexp.MustCompile(`^[ICR][1-9][0-9]?[:,]|\([ICR][1-9][0-9]?\)`)
	testPattern      = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)((?:[A-Z][1-9][0-9]{0,2}_)+)`)
	namedPattern     = regexp.MustCompile(`([A-Z])([1-9][0-9]{0,2})_`)
	casePattern      = regexp.MustCompile(`^S([1-9][0-9]{0,2})\b`)
	elsewherePattern = regexp.MustCompile(`(?m)^//\t\s*S([1-9][0-9]{0,2})\s+[A-Z]`)
	codePattern      = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// brokenRules says what does not hold between the rulebook and what cites it.
func brokenRules(root string) ([]string, error) {
	book, wrong, err := readRulebook(filepath.Join(root, rulebookName))
	if err != nil {
		return nil, err
	}
	r := repository{carried: map[string][]int{}}
	if err := r.read(root); err != nil {
		return nil, err
	}
	for _, c := range r.citations {
		if book[c.rule] == nil {
			wrong = append(wrong, fmt.Sprintf("%s cites S%d, which is not defined in %s", c.file, c.rule, rulebookName))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(book)) {
		wrong = append(wrong, book[n].unproven(n, r.carried)...)
	}
	return append(wrong, r.wrong...), nil
}

// rule is a section of the rulebook.
type rule struct {
	prevents bool
	tests    []string // package.Name
}

// unproven says what the rule lacks; carried are the numbers of each test.
func (r *rule) unproven(number int, carried map[string][]int) (wrong []string) {
	if !r.prevents {
		wrong = append(wrong, fmt.Sprintf("S%d does not say what it prevents", number))
	}
	if len(r.tests) == 0 {
		wrong = append(wrong, fmt.Sprintf("S%d names no test", number))
	}
	for _, test := range r.tests {
		numbers, ok := carried[test]
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("S%d names %s, which does not exist", number, test))
		case !slices.Contains(numbers, number):
			wrong = append(wrong, fmt.Sprintf("S%d names %s, which does not carry it", number, test))
		}
	}
	return wrong
}

// readRulebook reads a section for each rule: a heading, its text, *Prevents:* and *Tests:*.
func readRulebook(file string) (map[int]*rule, []string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	book, wrong, now := map[int]*rule{}, []string(nil), &rule{}
	for line := range strings.Lines(string(text)) {
		if m := rulePattern.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			if book[n] != nil {
				wrong = append(wrong, fmt.Sprintf("S%d is defined twice", n))
			}
			now = &rule{}
			book[n] = now
		}
		now.prevents = now.prevents || strings.HasPrefix(line, "*Prevents:* ")
		for _, m := range proofPattern.FindAllStringSubmatch(line, -1) {
			now.tests = append(now.tests, m[1]+"."+m[2])
		}
	}
	return book, wrong, nil
}

type citation struct {
	file string
	rule int
}

// repository is what the files say of rules.
type repository struct {
	citations []citation
	carried   map[string][]int // by test, as package.Name
	wrong     []string
}

// notRead are texts that are not the project's own: the specification's rows.
var notRead = []string{"jepsen/conformance/CONFORMANCE.md"}

func (r *repository) read(root string) error {
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); file != root && (strings.HasPrefix(name, ".") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return r.readFile(file, filepath.ToSlash(rel))
	})
}

func (r *repository) readFile(file, name string) error {
	switch {
	case slices.Contains(notRead, name), strings.HasSuffix(name, ".pb.go"):
		return nil
	case strings.HasSuffix(name, ".go"):
		return r.readGo(file, name)
	case path.Ext(name) != ".md" && path.Ext(name) != ".proto" && path.Ext(name) != ".sh" && path.Base(name) != "Makefile":
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	r.cites(name, string(text))
	if path.Ext(name) == ".md" {
		r.oldForms(name, oldPattern, codePattern.ReplaceAllString(string(text), ""))
	}
	return nil
}

// readGo reads comments, texts, and the names of tests; not names of anything else.
func (r *repository) readGo(file, name string) error {
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range tree.Comments {
		for _, c := range group.List {
			r.cites(name, c.Text)
			r.oldForms(name, oldPattern, c.Text)
			for _, m := range elsewherePattern.FindAllStringSubmatch(c.Text, -1) {
				r.wrong = append(r.wrong, fmt.Sprintf("%s defines S%s, which %s does", name, m[1], rulebookName))
			}
		}
	}
	if name == "safety_test.go" { // its plants are no citations
		return nil
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text := textOf(lit)
			r.cites(name, text)
			r.oldForms(name, oldStartPattern, text)
		}
		return true
	})
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(name, "_test.go") {
			r.readTest(name, f)
		}
	}
	return nil
}

func textOf(lit *ast.BasicLit) string {
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return lit.Value
	}
	return text
}

// readTest notes which rules a test carries.
func (r *repository) readTest(name string, f *ast.FuncDecl) {
	if f.Recv != nil || f.Name.Name == "TestMain" || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
		return
	}
	var carried []int
	if m := testPattern.FindStringSubmatch(f.Name.Name); m != nil {
		for _, m := range namedPattern.FindAllStringSubmatch(m[1], -1) {
			if m[1] != "S" {
				r.oldForms(name, oldPattern, m[1]+m[2])
				continue
			}
			carried = append(carried, number(m[2]))
			r.cites(name, m[1]+m[2])
		}
	}
	for _, m := range citationPattern.FindAllStringSubmatch(f.Doc.Text(), -1) {
		carried = append(carried, number(m[1]))
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if m := casePattern.FindStringSubmatch(textOf(lit)); m != nil {
				carried = append(carried, number(m[1]))
			}
		}
		return true
	})
	r.carried[path.Dir(name)+"."+f.Name.Name] = carried
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

func (r *repository) cites(file, text string) {
	for _, m := range citationPattern.FindAllStringSubmatch(text, -1) {
		r.citations = append(r.citations, citation{file, number(m[1])})
	}
}

func (r *repository) oldForms(file string, pattern *regexp.Regexp, text string) {
	for _, old := range pattern.FindAllString(text, -1) {
		r.wrong = append(r.wrong, fmt.Sprintf("%s cites %s, which is no rule of %s", file, strings.Trim(old, "():,"), rulebookName))
	}
}
