package observability

// The dashboard of Grafana: its model is what an export of Grafana 11 has, schema version 39.

const dashboardSchema = 39

// row is one row of panels.
type row struct {
	title  string
	panels []panel
}

// panel is one graph, or with stat one number.
type panel struct {
	title, unit string
	stat        bool
	queries     []query
}

// query is an expression of Prometheus with the legend of its series.
type query struct{ expr, legend string }

// Dashboard is the model of the dashboard, ready to be marshalled.
func Dashboard() map[string]any {
	d := &dashboard{}
	for _, r := range dashboardRows {
		d.addRow(r)
	}
	return map[string]any{
		"uid": "holdfast", "title": "Holdfast", "tags": []string{"holdfast", "storage"}, "schemaVersion": dashboardSchema, "editable": true,
		"time": map[string]string{"from": "now-6h", "to": "now"}, "refresh": "30s", "timezone": "browser", "panels": d.panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0},
		}},
		"annotations": map[string]any{"list": []any{}}, "links": []any{},
	}
}

const (
	dashboardWidth = 24 // of Grafana's grid
	panelHeight    = 7
	statHeight     = 4
)

// dashboard is the dashboard as it grows.
type dashboard struct {
	panels []any
	id, y  int
}

func (d *dashboard) add(model map[string]any, x, width, height int) {
	d.id++
	model["id"], model["gridPos"] = d.id, map[string]int{"x": x, "y": d.y, "w": width, "h": height}
	d.panels = append(d.panels, model)
}

// addRow puts up to four stats or three graphs beside each other.
func (d *dashboard) addRow(r row) {
	d.add(map[string]any{"type": "row", "title": r.title, "collapsed": false, "panels": []any{}}, 0, dashboardWidth, 1)
	d.y++
	for start := 0; start < len(r.panels); {
		stat, beside, height := r.panels[start].stat, 3, panelHeight
		if stat {
			beside, height = 6, statHeight
		}
		end := start
		for end < len(r.panels) && end-start < beside && r.panels[end].stat == stat {
			end++
		}
		for i, p := range r.panels[start:end] {
			d.add(p.model(), i*dashboardWidth/beside, dashboardWidth/beside, height)
		}
		d.y, start = d.y+height, end
	}
}

func (p panel) model() map[string]any {
	source := map[string]string{"type": "prometheus", "uid": "${datasource}"}
	var targets []any
	for i, q := range p.queries {
		targets = append(targets, map[string]any{"refId": string(rune('A' + i)), "expr": q.expr, "legendFormat": q.legend, "datasource": source})
	}
	kind := "timeseries"
	if p.stat {
		kind = "stat"
	}
	return map[string]any{"type": kind, "title": p.title, "datasource": source, "targets": targets,
		"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit, "min": 0}, "overrides": []any{}}, "options": map[string]any{}}
}
