/* Compresses a file in memory and expands it again, for benches/instructions.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zlib.h"

int main(int argc, char **argv)
{
	FILE *in = argc > 1 ? fopen(argv[1], "rb") : NULL;
	int times = argc > 2 ? atoi(argv[2]) : 1;
	uLong size = 1 << 21;
	Bytef *text = malloc(size), *back = malloc(size), *packed = malloc(compressBound(size));

	if (!in || !text || !back || !packed)
		return 1;
	size = fread(text, 1, size, in);
	while (times-- > 0) {
		uLongf length = compressBound(size), again = size;

		if (compress2(packed, &length, text, size, 6) != Z_OK ||
		    uncompress(back, &again, packed, length) != Z_OK || memcmp(text, back, size))
			return 1;
	}
	return 0;
}
