package rendertest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Objects whose fields are Kubernetes' own, which has versions of its own: the API server refuses what is wrong in them.
const kubernetesOwn = "As Kubernetes has it."

func TestSchemaIsClosed(t *testing.T) {
	var isClosed func(path string, node any)
	isClosed = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			if node["type"] == "object" && node["description"] != kubernetesOwn {
				require.Equal(t, false, node["additionalProperties"], path)
			}
			for key, below := range node {
				isClosed(path+"/"+key, below)
			}
		case []any:
			for _, below := range node {
				isClosed(path, below)
			}
		}
	}
	isClosed("", readSchema(t))
}

// A key that values.yaml does not have is refused in every object of it; where an object's keys are names, in each of those.
func TestATypoIsRefused(t *testing.T) {
	for _, path := range mappings(t) {
		values := tree{}
		at := values
		for _, key := range path {
			next := tree{}
			at[key] = next
			at = next
		}
		at["replicsa"] = 2
		for _, helm := range []func(Release) (map[string]string, error){Helm3, Helm4} {
			_, err := helm(Release{KubeVersion: newest, Values: values})
			require.ErrorContains(t, err, "replicsa", "%s", strings.Join(path, "."))
		}
	}
}

// named are objects whose keys somebody chooses.
var named = []string{
	"topologyLabels", "podLabels", "podAnnotations", "serviceAccountAnnotations", "nodeSelector", "labels", "metricsNamespaceLabels",
	"requests", "storageClasses", "classes", "groupClasses", "volumeAttributesClasses", "networkFenceClasses", "volumeReplicationClasses",
	"volumeGroupReplicationClasses",
}

// mappings are the paths of all objects of values.yaml that have a fixed set of keys.
func mappings(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(ChartDir, "values.yaml"))
	require.NoError(t, err)
	var root map[string]any
	require.NoError(t, yaml.UnmarshalStrict(text, &root))
	out := [][]string{}
	var walk func(path []string, node map[string]any)
	walk = func(path []string, node map[string]any) {
		if len(path) == 0 || !slices.Contains(named, path[len(path)-1]) {
			out = append(out, path)
		}
		for key, below := range node {
			if below, ok := below.(map[string]any); ok {
				walk(append(append([]string{}, path...), key), below)
			}
		}
	}
	walk(nil, root)
	require.Greater(t, len(out), 40)
	return out
}

// Each value of values.yaml is one that the schema names, and the other way round.
func TestSchemaHasEveryValueAndNoOther(t *testing.T) {
	schema := readSchema(t)
	values, err := Values()
	require.NoError(t, err)
	documented := map[string]bool{}
	for _, value := range values {
		documented[value.Path] = true
	}
	for _, path := range leaves(schema, schema, "", documented) {
		require.Contains(t, documented, path, "values.yaml says nothing of it")
	}
	for path := range documented {
		require.True(t, inSchema(schema, schema, strings.Split(path, ".")), "%s is not in the schema", path)
	}
}

// leaves are the paths that a schema names, down to those that are documented.
func leaves(schema, node map[string]any, prefix string, documented map[string]bool) []string {
	node = follow(schema, node)
	properties, ok := node["properties"].(map[string]any)
	if !ok && len(patterns(node)) > 0 && !documented[strings.TrimSuffix(prefix, ".")] {
		return nil // its keys are names: values.yaml shows some
	}
	if !ok || documented[strings.TrimSuffix(prefix, ".")] {
		return []string{strings.TrimSuffix(prefix, ".")}
	}
	var out []string
	for key, below := range properties {
		out = append(out, leaves(schema, below.(map[string]any), prefix+key+".", documented)...)
	}
	return out
}

func inSchema(schema, node map[string]any, path []string) bool {
	node = follow(schema, node)
	if len(path) == 0 {
		return true
	}
	if properties, ok := node["properties"].(map[string]any); ok {
		if below, ok := properties[path[0]].(map[string]any); ok {
			return inSchema(schema, below, path[1:])
		}
	}
	for _, below := range patterns(node) {
		if inSchema(schema, below, path[1:]) {
			return true
		}
	}
	return false
}

func patterns(node map[string]any) []map[string]any {
	var out []map[string]any
	if all, ok := node["patternProperties"].(map[string]any); ok {
		for _, below := range all {
			out = append(out, below.(map[string]any))
		}
	}
	return out
}

// follow is the definition that a node refers to, or the node.
func follow(schema, node map[string]any) map[string]any {
	if ref, ok := node["$ref"].(string); ok {
		return schema["definitions"].(map[string]any)[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	return node
}

func readSchema(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(ChartDir, "values.schema.json"))
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}
