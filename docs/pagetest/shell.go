package pagetest

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Words are one command as a shell would call it.
type Words []string

func (w Words) String() string { return strings.Join(w, " ") }

// Commands are the simple commands of a script, in their order. Variables are what values has; one that it lacks is an error, as is
// whatever a page has no need of: substitutions, loops, functions.
func Commands(script string, values map[string]string) (all []Words, err error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		if err != nil {
			return false
		}
		switch node := node.(type) {
		case *syntax.CallExpr:
			var words Words
			words, err = wordsOf(node.Args, values)
			all = append(all, words)
			return false
		case nil, *syntax.File, *syntax.Stmt, *syntax.BinaryCmd, *syntax.Comment:
			return true
		default:
			err = fmt.Errorf("a %T is nothing that a page needs", node)
			return false
		}
	})
	return all, err
}

func wordsOf(args []*syntax.Word, values map[string]string) (words Words, err error) {
	for _, arg := range args {
		word, err := textOf(arg.Parts, values)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

func textOf(parts []syntax.WordPart, values map[string]string) (text string, err error) {
	for _, part := range parts {
		var more string
		switch part := part.(type) {
		case *syntax.Lit:
			more = strings.ReplaceAll(part.Value, `\`, "")
		case *syntax.SglQuoted:
			more = part.Value
		case *syntax.DblQuoted:
			more, err = textOf(part.Parts, values)
		case *syntax.ParamExp:
			var known bool
			if more, known = values[part.Param.Value]; !known {
				err = fmt.Errorf("$%s is no variable that the test has a value for", part.Param.Value)
			}
		default:
			err = fmt.Errorf("a %T is nothing that a page needs", part)
		}
		if err != nil {
			return "", err
		}
		text += more
	}
	return text, nil
}
