# Word counts and field sums, for benches/instructions.py.
{
	for (i = 1; i <= NF; i++) {
		count[$i]++
		if ($i ~ /^[a-f]+[0-9]*$/) matched++
	}
	sum += length($0) * NR % 7
	gsub(/[aeiou]/, "_")
	out = out substr($0, 1, 3)
	if (length(out) > 5000) out = ""
}
END {
	for (word in count) if (count[word] > most) { most = count[word]; top = word }
	print top, most, matched, sum, length(out)
}
