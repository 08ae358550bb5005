package rendertest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is one documented value of the chart.
type Value struct {
	Path    string // keys joined by dots
	Default string // as JSON
	Text    string // what it is
}

// Values are those of values.yaml in its order. A value without a comment that begins with -- is an error; below one
// with it nothing else needs one.
func Values() ([]Value, error) {
	text, err := os.ReadFile(filepath.Join(ChartDir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	return documented(nil, "", root.Content[0])
}

func documented(out []Value, prefix string, mapping *yaml.Node) ([]Value, error) {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := prefix + key.Value
		text, has := comment(key.HeadComment)
		switch {
		case has:
			fallback, err := asJSON(value)
			if err != nil {
				return nil, err
			}
			out = append(out, Value{Path: path, Default: fallback, Text: text})
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			var err error
			if out, err = documented(out, path+".", value); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("values.yaml: %s has no comment that begins with --", path)
		}
	}
	return out, nil
}

// comment is the text behind "# -- " of a comment, which may go on over several lines.
func comment(head string) (string, bool) {
	_, text, found := strings.Cut(head, "# -- ")
	return strings.ReplaceAll(text, "\n# ", " "), found
}

func asJSON(node *yaml.Node) (string, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return "", err
	}
	text, err := json.Marshal(value)
	return string(text), err
}
