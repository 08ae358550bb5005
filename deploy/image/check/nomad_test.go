package check

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// variables are what an operator gives, and the defaults of the files.
var variables = &hcl.EvalContext{
	Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{
		"image": cty.StringVal("localhost/holdfast:v1"), "datacenters": list("*"), "bootstrap": cty.True,
		"controllers": list("a:9800", "b:9800", "c:9800"), "endpoints": list("a:9802", "b:9802", "c:9802"),
	})},
	Functions: map[string]function.Function{"concat": stdlib.ConcatFunc, "join": stdlib.JoinFunc, "length": stdlib.LengthFunc},
}

func list(values ...string) cty.Value {
	var all []cty.Value
	for _, v := range values {
		all = append(all, cty.StringVal(v))
	}
	return cty.ListVal(all)
}

// The job files are HCL in its canonical form, name one CSI plugin, and call the program with flags that it has.
func TestNomadJobs(t *testing.T) {
	manual, err := os.ReadFile("../../COMMANDS.md")
	require.NoError(t, err)
	for kind, jobType := range map[string]string{"controller": "service", "node": "system"} {
		file := "../../nomad/" + kind + ".nomad.hcl"
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(hclwrite.Format(content)), string(content), "%s is not formatted", file)
		parsed, diagnostics := hclsyntax.ParseConfig(content, file, hcl.InitialPos)
		require.False(t, diagnostics.HasErrors(), diagnostics.Error())

		body := parsed.Body.(*hclsyntax.Body)
		job := block(t, body, "job")
		require.Equal(t, jobType, text(t, job, "type"))
		task := block(t, block(t, job, "group"), "task")
		plugin := block(t, task, "csi_plugin")
		require.Equal(t, "csi.holdfast.storage", text(t, plugin, "id"))
		require.Equal(t, kind, text(t, plugin, "type"))
		requireArgs(t, string(manual), kind, block(t, task, "config"))
		requireVariables(t, body)
	}
}

func requireArgs(t *testing.T, manual, kind string, config *hclsyntax.Body) {
	args := value(t, config, "args").AsValueSlice()
	require.Equal(t, kind, args[0].AsString())
	page := section(t, manual, "holdfast "+kind) + section(t, manual, "Flags of the commands that ask a cluster")
	for _, arg := range args[1:] {
		flag, _, _ := strings.Cut(arg.AsString(), "=")
		require.Contains(t, page, "`"+flag+"`", "holdfast %s", kind)
		require.NotRegexp(t, regexp.MustCompile(`\$\$`), arg.AsString())
	}
}

func section(t *testing.T, manual, title string) string {
	_, page, found := strings.Cut(manual, "\n## "+title+"\n")
	require.True(t, found, title)
	page, _, _ = strings.Cut(page, "\n## ")
	return page
}

// requireVariables fails for one that is declared and that this test does not give, so all that are used are evaluated.
func requireVariables(t *testing.T, body *hclsyntax.Body) {
	for _, b := range body.Blocks {
		if b.Type == "variable" {
			require.True(t, variables.Variables["var"].Type().HasAttribute(b.Labels[0]), b.Labels[0])
			require.NotEmpty(t, text(t, b.Body, "description"))
		}
	}
}

func block(t *testing.T, body *hclsyntax.Body, kind string) *hclsyntax.Body {
	var found []*hclsyntax.Body
	for _, b := range body.Blocks {
		if b.Type == kind {
			found = append(found, b.Body)
		}
	}
	require.Len(t, found, 1, kind)
	return found[0]
}

func value(t *testing.T, body *hclsyntax.Body, name string) cty.Value {
	require.Contains(t, body.Attributes, name)
	v, diagnostics := body.Attributes[name].Expr.Value(variables)
	require.False(t, diagnostics.HasErrors(), diagnostics.Error())
	return v
}

func text(t *testing.T, body *hclsyntax.Body, name string) string {
	return value(t, body, name).AsString()
}
