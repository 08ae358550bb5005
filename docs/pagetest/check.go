package pagetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// root is the repository's, seen from here.
const root = "../.."

// variables are what those of the pages stand for.
var variables = map[string]string{
	"ATTACHMENT": "csi-0123", "CLAIM": "data-db-0", "CONTROLLER_POD": "holdfast-controller-0", "FILE": "file", "INCARNATION": "2", "MEMBER_ID": "0b5c7a9e", "NAMESPACE": "shop",
	"NODE": "n1", "NODE_POD": "a-pod-of-holdfast-node", "OTHER_MEMBER_ID": "1c6d8b0f", "PASSWORD": "secret", "POD": "db-0", "PWD": "/src", "REGISTRY": "registry.example.com:5000",
	"USER": "alice", "VOLUME": "pvc-7", "VOLUME_ID": "v-3k9", "ZONE": "a",
}

// programs say how a call of each is checked.
var programs = map[string]func(Block, Words) error{
	"helm": checkHelm, "holdfast": checkHoldfast, "bin/holdfast": checkHoldfast, "kubectl": checkKubectl, "make": checkMake,
	// Programs of the user's or of the host's.
	"ctr": foreign, "ln": foreign, "rm": foreign, "umount": foreign,
}

func foreign(Block, Words) error { return nil }

// Check holds a block against what it is of. It returns the commands that are in it.
func Check(b Block) ([]Words, error) {
	switch b.Language {
	case "sh":
		return checkScript(b)
	case "yaml":
		return nil, checkYAML(b)
	case "mermaid":
		return nil, checkPicture(b)
	}
	return nil, fmt.Errorf("a block of %q is neither sh, yaml nor mermaid", b.Language)
}

func checkScript(b Block) ([]Words, error) {
	var script strings.Builder
	for line := range strings.Lines(b.Text) {
		short, ok := abbreviated(line)
		if !ok {
			script.WriteString(line)
			continue
		}
		if err := checkAbbreviated(short); err != nil {
			return nil, err
		}
	}
	commands, err := Commands(script.String(), variables)
	if err != nil {
		return nil, err
	}
	for _, words := range commands {
		if len(words) == 0 || programs[words[0]] == nil {
			return nil, fmt.Errorf("%q: the test does not know this program", words)
		}
		if err := programs[words[0]](b, words); err != nil {
			return nil, err
		}
	}
	return commands, nil
}

func checkPicture(b Block) error {
	kind, _, _ := strings.Cut(strings.TrimSpace(b.Text), "\n")
	if !strings.HasPrefix(kind, "flowchart ") && kind != "sequenceDiagram" {
		return fmt.Errorf("the test does not know pictures of kind %q", kind)
	}
	if begun, ended := strings.Count(b.Text, "subgraph "), strings.Count(b.Text, "\n  end"); begun != ended {
		return fmt.Errorf("%d subgraphs, and %d ends", begun, ended)
	}
	return nil
}

func checkMake(_ Block, w Words) error {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err
	}
	for _, target := range w[1:] {
		if !strings.Contains(target, "=") && !strings.Contains(string(text), "\n"+target+":") {
			return fmt.Errorf("make %s: there is no such target", target)
		}
	}
	return nil
}
