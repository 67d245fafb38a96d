/* A program that looks like Node.js 18 to those who read V8's structures from outside, and keeps in them what argument 1 says: a function
 * that is as it should be, or what V8 would not write. Its code lies in memory without a file. Computes for argument 2 seconds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define SHOWN __attribute__((visibility("default")))
typedef struct { _Alignas(8) uint8_t bytes[128]; } object;

#define CONSTANT(name_, value_) SHOWN const int name_ = value_
CONSTANT(_ZN2v88internal7Version6major_E, 10);
CONSTANT(_ZN2v88internal7Version6minor_E, 2);
CONSTANT(v8dbg_HeapObjectTag, 1);
CONSTANT(v8dbg_SmiTag, 0);
CONSTANT(v8dbg_SmiShiftSize, 31);
CONSTANT(v8dbg_StringEncodingMask, 8);
CONSTANT(v8dbg_StringRepresentationMask, 7);
CONSTANT(v8dbg_FirstNonstringType, 128);
CONSTANT(v8dbg_class_HeapObject__map__Map, 0);
CONSTANT(v8dbg_class_Map__instance_type__uint16_t, 12);
CONSTANT(v8dbg_class_String__length__int32_t, 12);
CONSTANT(v8dbg_class_SeqOneByteString__chars__char, 16);
CONSTANT(v8dbg_class_ConsString__first__String, 16);
CONSTANT(v8dbg_class_FixedArray__data__uintptr_t, 16);
CONSTANT(v8dbg_off_fp_context, -8);
CONSTANT(v8dbg_off_fp_function, -16);
CONSTANT(v8dbg_class_JSFunction__shared__SharedFunctionInfo, 24);
CONSTANT(v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object, 16);
CONSTANT(v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject, 32);
CONSTANT(v8dbg_class_Script__source__Object, 8);
CONSTANT(v8dbg_class_Script__name__Object, 16);
CONSTANT(v8dbg_class_Script__line_ends__Object, 56);
CONSTANT(v8dbg_type_JSFunction__JS_FUNCTION_TYPE, 2065);
CONSTANT(v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE, 257);
CONSTANT(v8dbg_type_Script__SCRIPT_TYPE, 170);
CONSTANT(v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE, 256);
CONSTANT(v8dbg_type_FixedArray__FIXED_ARRAY_TYPE, 179);
CONSTANT(v8dbg_scopeinfo_idx_first_vars, 3);

static object function, shared, scope, script, file, name, source, context;
static object maps[8];
static volatile unsigned long sink;

static void put_number(object *at, int offset, uint64_t value) { memcpy(at->bytes + offset, &value, 8); }
static void put(object *at, int offset, object *value) { put_number(at, offset, (uint64_t)value + 1); }

static void is_of_type(object *at, int map, uint64_t type)
{
	put_number(&maps[map], 8, type << 32);
	put(at, 0, &maps[map]);
}

static void text(object *at, const char *text)
{
	put(at, 0, &maps[0]);
	put_number(at, 8, (uint64_t)strlen(text) << 32);
	strcpy((char *)at->bytes + 16, text);
}

static void build(void)
{
	is_of_type(&file, 0, 40); /* a string of one piece, a byte for a character: that of all texts */
	text(&file, "/srv/hostile.js");
	text(&name, "victim");
	text(&source, "\n\nfunction victim() {}\n");
	is_of_type(&function, 1, 2065);
	put(&function, 24, &shared);
	is_of_type(&shared, 2, 257);
	put(&shared, 16, &scope);
	put(&shared, 32, &script);
	is_of_type(&scope, 3, 256);
	put_number(&scope, 8, 0x131c2ull << 32); /* it has a name, and none that was inferred */
	put(&scope, 32, &name);
	put_number(&scope, 48, 17ull << 32);
	is_of_type(&script, 4, 170);
	put(&script, 8, &source);
	put(&script, 16, &file);
}

static void spoil(const char *how)
{
	if (!strcmp(how, "garbage")) {
		put_number(&function, 24, 0x4141414141414141);
	} else if (!strcmp(how, "kernel")) {
		put_number(&shared, 16, 0xffffffff81000001);
	} else if (!strcmp(how, "giant")) { /* text and source have four billion characters, and the scope has two billion variables */
		put_number(&name, 8, 0xffffffffull << 32);
		put_number(&source, 8, 0xffffffffull << 32);
		put_number(&scope, 24, 0x7fffffffull << 32);
	} else if (!strcmp(how, "itself")) { /* a name that is put together of itself */
		is_of_type(&name, 5, 33);
		put_number(&name, 8, 1000000ull << 32);
		put(&name, 16, &name);
		put(&name, 24, &name);
	}
}

/* A frame as V8's, and a loop. */
static const uint8_t code[] = {
	0x55, 0x48, 0x89, 0xe5,       /* push rbp; mov rbp, rsp */
	0x56, 0x57,                   /* push rsi; push rdi: context and function */
	0xb9, 0x40, 0x0d, 0x03, 0x00, /* mov ecx, 200000 */
	0xff, 0xc9, 0x75, 0xfc,       /* dec ecx; jnz */
	0xc9, 0xc3,                   /* leave; ret */
};

int main(int count, char **arguments)
{
	const char *how = count > 1 ? arguments[1] : "good";
	double seconds = count > 2 ? atof(arguments[2]) : 1;
	int rewrite = !strcmp(how, "rewrite");
	uint8_t *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct timespec now;

	if (made == MAP_FAILED)
		return 1;
	memcpy(made, code, sizeof(code));
	build();
	spoil(how);
	clock_gettime(CLOCK_MONOTONIC, &now);
	double end = now.tv_sec + now.tv_nsec / 1e9 + seconds;
	object *all[] = { &function, &shared, &scope, &script, &name, &source };
	do {
		((void (*)(uint64_t, uint64_t))made)((uint64_t)&function + 1, (uint64_t)&context + 1);
		sink = sink * 6364136223846793005 + 1442695040888963407;
		if (rewrite) /* each time something else, some of it pointers to its own objects */
			put_number(all[sink >> 40 & 3], sink >> 50 & 56,
				   sink >> 63 ? (uint64_t)all[sink >> 60 & 3] + 1 : sink >> (sink & 63));
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec + now.tv_nsec / 1e9 < end);
	return 0;
}
