package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/listing"
)

// Formats are the output formats that Print supports. A wide table is that of all columns, where an answer is a list.
var Formats = []string{"table", "wide", "json", "yaml"}

// CheckFormat returns an error for an unknown output format.
func CheckFormat(format string) error {
	if !slices.Contains(Formats, format) {
		return fmt.Errorf("there is no output format %q: choose table, wide, json or yaml", format)
	}
	return nil
}

// Print writes an answer of the API as a table for people, or completely as JSON or YAML.
func Print(w io.Writer, format string, answer proto.Message) error {
	switch format {
	case "table", "wide":
		return printTable(w, answer, listing.View{Wide: format == "wide"})
	case "yaml":
		return printYAML(w, answer)
	}
	return printJSON(w, answer)
}

// PrintList writes an answer as a list that may be another than its usual one: as a table what the view selects, in its order; as
// JSON or YAML complete items. The answer is changed to what the view selects.
func PrintList(w io.Writer, format string, list listing.Lister, answer proto.Message, view listing.View) error {
	if format != "table" && format != "wide" {
		list.Arrange(answer, view)
		return Print(w, format, answer)
	}
	view.Wide = format == "wide"
	return tabulate(w, func(out io.Writer) { list.Table(out, answer, view) })
}

func printJSON(w io.Writer, answer proto.Message) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(orderedMessage{answer})
}

// printYAML converts the JSON, which is valid YAML, so that both have the same fields and order.
func printYAML(w io.Writer, answer proto.Message) error {
	text, err := json.Marshal(orderedMessage{answer})
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return fmt.Errorf("print as yaml: %w", err)
	}
	blockStyle(&node)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return fmt.Errorf("print as yaml: %w", err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// blockStyle replaces the flow style of JSON by block style. Empty lists and maps keep the flow
// style, because YAML has no other; strings keep their quotes where they are needed.
func blockStyle(n *yaml.Node) {
	if len(n.Content) > 0 {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, child := range n.Content {
		blockStyle(child)
	}
}
