{{- /* The label by which each controller's host is found: a list of {key, value}. */ -}}
{{- define "holdfast.controllerHosts" -}}
{{- $c := .Values.controller }}
{{- $out := list }}{{- $taken := list }}{{- $free := list }}
{{- $seen := (lookup "v1" "Node" "" "").items }}
{{- $present := dict }}
{{- range $i := until (int $c.replicas) }}
{{- $volume := lookup "v1" "PersistentVolume" "" (printf "holdfast-controller-%d" $i) }}
{{- if $volume }}
{{- $match := index (index $volume.spec.nodeAffinity.required.nodeSelectorTerms 0).matchExpressions 0 }}
{{- $_ := set $present (toString $i) (dict "key" $match.key "value" (index $match.values 0)) }}
{{- $taken = append $taken (index $match.values 0) }}
{{- end }}
{{- end }}
{{- if and $seen (not $c.nodes) }}
{{- $free = fromYamlArray (include "holdfast.freeHosts" (dict "root" . "nodes" $seen "taken" $taken)) }}
{{- end }}
{{- range $i := until (int $c.replicas) }}
{{- if hasKey $present (toString $i) }}
{{- $out = append $out (get $present (toString $i)) }}
{{- else if $c.nodes }}
{{- $out = append $out (dict "key" "kubernetes.io/hostname" "value" (index $c.nodes $i)) }}
{{- else if not $seen }}
{{- $out = append $out (dict "key" "holdfast.storage/controller" "value" (toString $i)) }}
{{- else if not $free }}
{{- fail (printf "%d controllers need as many nodes that are Linux, ready and schedulable, and no more are found: name them in controller.nodes, or set controller.replicas=1." (int $c.replicas)) }}
{{- else }}
{{- $out = append $out (dict "key" "kubernetes.io/hostname" "value" (first $free)) }}
{{- $free = rest $free }}
{{- end }}
{{- end }}
{{- toYaml $out }}
{{- end }}

{{- /*
Hosts that can keep a controller, best first: those without a taint, then those of the control plane; of either, one of each
zone before a second of any; by name. (dict "root" $ "nodes" LIST "taken" LIST)
*/ -}}
{{- define "holdfast.freeHosts" -}}
{{- $taken := .taken }}{{- $selector := .root.Values.controller.nodeSelector }}
{{- $ranks := dict }}{{- $zones := dict }}
{{- range .nodes }}
{{- $labels := .metadata.labels | default dict }}
{{- $host := get $labels "kubernetes.io/hostname" | default .metadata.name }}
{{- $ready := false }}
{{- range (.status | default dict).conditions }}{{- if and (eq .type "Ready") (eq .status "True") }}{{- $ready = true }}{{- end }}{{- end }}
{{- $tainted := false }}{{- $control := false }}
{{- range .spec.taints }}
{{- if eq .key "node-role.kubernetes.io/control-plane" }}{{- $control = true }}
{{- else if ne .effect "PreferNoSchedule" }}{{- $tainted = true }}{{- end }}
{{- end }}
{{- range $key, $value := $selector }}{{- if ne (toString $value) (get $labels $key | toString) }}{{- $tainted = true }}{{- end }}{{- end }}
{{- if and $ready (not $tainted) (not .spec.unschedulable) (ne (get $labels "kubernetes.io/os" | default "linux") "windows") (not (has $host $taken)) }}
{{- $zone := get $labels "topology.kubernetes.io/zone" | default "" }}
{{- $rank := ternary "1" "0" $control }}
{{- $_ := set $ranks $host $rank }}{{- $_ := set $zones $host $zone }}
{{- end }}
{{- end }}
{{- /* The nth host of its zone has the key RANK/n: sorted, zones take turns. */}}
{{- $count := dict }}{{- $keys := dict }}
{{- range $host := keys $ranks | sortAlpha }}
{{- $in := printf "%s/%s" (get $ranks $host) (get $zones $host) }}
{{- $nth := ternary 0 (int (get $count $in)) (eq (get $zones $host) "") }}
{{- $_ := set $count $in (add1 $nth) }}
{{- $_ := set $keys (printf "%s/%06d/%s" (get $ranks $host) (int $nth) $host) $host }}
{{- end }}
{{- $out := list }}
{{- range $key := keys $keys | sortAlpha }}{{- $out = append $out (get $keys $key) }}{{- end }}
{{- toYaml $out }}
{{- end }}
